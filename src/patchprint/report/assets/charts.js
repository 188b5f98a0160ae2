// Charts that can be asked: uPlot draws the numbers that stand beside each drawing, which then steps back (and returns on paper).
(() => {
  "use strict";
  const narrow = matchMedia("(max-width: 40rem)");
  const drawn = [];

  const colorOf = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const faint = (color, part) => color.replace("rgb(", "rgba(").replace(")", `, ${part})`);
  const written = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 5 });
  const missing = (place) => (place == null ? "" : "\u2013"); // nothing while the pointer is elsewhere
  const short = (value) =>
    value == null ? "" : Math.abs(value) >= 10000 ? value.toLocaleString("en-US", { notation: "compact" }) : written(value);

  // A line, with its band if it has one; null stands where another line has a place and this one has none.
  const linesOf = (data) => {
    const columns = [data.x], series = [{ label: data.xLabel, value: (_, value) => value == null ? "" : written(value) }], bands = [];
    data.series.forEach((line) => {
      const color = colorOf(`series-${line.color}`);
      const values = line.y || data.frames[data.frames.length - 1].values[data.series.indexOf(line)];
      series.push({
        label: line.label,
        stroke: color,
        width: line.filled ? 1 : 2,
        dash: line.dashed ? [6, 4] : undefined,
        fill: line.filled ? faint(color, 0.28) : undefined,
        paths: line.filled ? uPlot.paths.bars({ size: [1, Infinity], gap: 0 }) : undefined,
        spanGaps: true,
        points: { show: values.filter((value) => value != null).length < 40 && !line.filled && !line.dashed && !data.frames, size: 6, fill: color },
        value: (_, value, __, place) =>
          value == null ? missing(place) : written(value) + (line.low && place != null ? ` (${written(line.low[place])} to ${written(line.high[place])})` : ""),
      });
      columns.push(values);
      if (line.low) {
        const edge = { class: "edge", width: 0, spanGaps: true, points: { show: false } };
        series.push({ ...edge, label: `${line.label}, largest` }, { ...edge, label: `${line.label}, least` });
        columns.push(line.high, line.low);
        bands.push({ series: [columns.length - 2, columns.length - 1], fill: faint(color, 0.18) });
      }
    });
    return { columns, series, bands, scales: { x: { time: false, distr: data.logarithmic ? 3 : 1 } } };
  };

  // Bars side by side: place and width of each as parts of the width of the plot.
  const barsOf = (data) => {
    const count = data.names.length, width = 0.8 / data.series.length;
    const columns = [data.names.map((_, place) => place)];
    const series = [{ label: data.xLabel || "name", value: (_, value) => (value == null ? "" : data.names[value]) }];
    data.series.forEach((bars, number) => {
      const color = colorOf(`series-${bars.color}`);
      const inside = (values) => ({ unit: 2, values });
      series.push({
        label: bars.label,
        stroke: color,
        fill: color,
        width: 0,
        points: { show: false },
        value: (_, value, __, place) => (value == null ? missing(place) : written(value)),
        paths: uPlot.paths.bars({
          disp: {
            x0: inside(() => data.names.map((_, place) => (place + 0.1 + number * width) / count)),
            size: inside(() => data.names.map(() => (0.9 * width) / count)),
          },
        }),
      });
      columns.push(bars.y);
    });
    return { columns, series, bands: [], scales: { x: { time: false, range: [-0.5, count - 0.5] }, y: { range: (_, low, high) => [Math.min(0, low), high * 1.05 || 1] } } };
  };

  const draw = (place, data) => {
    const { columns, series, bands, scales } = data.kind === "bars" ? barsOf(data) : linesOf(data);
    if (data.yRange) scales.y = { range: data.yRange };
    if (data.kind === "moving") scales.y = { range: [0, data.highest] };
    const ink = colorOf("muted"), line = colorOf("line"), font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: ink, font, labelFont: font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, labelGap: 2 };
    const across = { ...axis, label: data.xLabel || undefined, size: 34, labelSize: 20, values: (_, values) => values.map(short) };
    if (data.kind === "bars") {
      const letters = narrow.matches ? 4 : Math.max(4, Math.floor(110 / data.names.length));
      Object.assign(across, {
        grid: { show: false },
        splits: () => columns[0],
        values: (_, values) => values.map((value) => (data.names[value] || "").slice(0, letters)),
        space: 10,
      });
    }
    const options = {
      width: place.clientWidth,
      height: narrow.matches ? 220 : 250,
      scales,
      series,
      bands,
      axes: [across, { ...axis, label: data.yLabel, labelSize: 20, size: 56, values: (_, values) => values.map(short) }],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 8 } },
      legend: { markers: { fill: (chart, number) => chart.series[number].stroke() } },
      padding: [8, 12, 0, 0],
    };
    return new uPlot(options, columns, place);
  };

  const slider = (place, data, chart) => {
    const row = document.createElement("label"), input = document.createElement("input"), output = document.createElement("output");
    row.className = "moment";
    Object.assign(input, { type: "range", min: 0, max: data.frames.length - 1, value: data.frames.length - 1 });
    const show = () => {
      const frame = data.frames[input.value];
      output.textContent = `${data.moment} ${frame.label}`;
      input.setAttribute("aria-valuetext", output.textContent);
      chart().setData([data.x, ...frame.values]);
    };
    row.append(`Move through the training`, input, output);
    input.addEventListener("input", show);
    place.before(row);
    return show;
  };

  // The arrow keys go from one value to the next.
  const keys = (place, chart) => {
    place.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const plot = chart(), x = plot.data[0];
      const now = plot.cursor.idx == null ? (step > 0 ? -1 : x.length) : plot.cursor.idx;
      const next = Math.min(Math.max(now + step, 0), x.length - 1);
      plot.setCursor({ left: plot.valToPos(x[next], "x"), top: plot.over.clientHeight / 2 });
    });
  };

  for (const figure of document.querySelectorAll("figure.chart")) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    if (data.frames) data.highest = 1.05 * Math.max(...data.frames.flatMap((frame) => frame.values.flat()));
    const place = document.createElement("div");
    place.className = "live";
    place.tabIndex = 0;
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", `${data.title}; the arrow keys read its values`);
    figure.querySelector(".static").after(place);
    figure.classList.add("is-live");
    let plot = null, show = null;
    const redraw = () => { if (plot) plot.destroy(); plot = draw(place, data); if (show) show(); };
    redraw();
    if (data.frames && data.frames.length > 1) { show = slider(place, data, () => plot); show(); }
    keys(place, () => plot);
    drawn.push(redraw);
    new ResizeObserver(() => {
      if (place.clientWidth && Math.abs(place.clientWidth - plot.width) > 1) plot.setSize({ width: place.clientWidth, height: plot.height });
    }).observe(place);
  }
  document.addEventListener("theme", () => drawn.forEach((redraw) => redraw()));
})();
