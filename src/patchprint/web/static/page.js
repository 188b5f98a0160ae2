// The page of patchprint serve: calls the HTTP API (docs/serve.md) and draws the answer. Text is only ever set as textContent.
"use strict";

const REACH = 10; // pixels of the screen within which a pointer selects the end of a line
const VERDICTS = {same: "same place", unsure: "cannot tell"};
let choices, comparison, patches; // answers of /api/choices, /api/compare and /api/patches
let drawn = []; // the lines: {ends: [[x, y], [x, y]], rows: the two keypoints, group}

// ---- requests

async function ask(address, more = {}) {
  const body = new FormData();
  body.append("image_a", files.a);
  body.append("image_b", files.b);
  for (const name of ["model", "baseline", "detector", "matcher"]) body.append(name, form[name].value);
  body.append("max_keypoints", form.max_keypoints_number.value);
  if (!form.ratio.disabled) body.append("ratio", form.ratio_number.value);
  for (const [name, value] of Object.entries(more)) body.append(name, value);
  const reply = await fetch(address, {method: "POST", body}).catch(() => { throw new Error("the server does not answer"); });
  const value = await reply.json().catch(() => ({error: `the server answered ${reply.status} ${reply.statusText}`}));
  if (!reply.ok) throw new Error(value.error);
  return value;
}

let isBusy = false, next = null;

// Run one request at a time; of those that wait only the last is kept.
async function enqueue(work) {
  next = work;
  if (isBusy) return;
  isBusy = true;
  $("status").textContent = "matching …";
  while (next) {
    const current = next;
    next = null;
    showProblem("");
    await current().catch((error) => showProblem(error.message));
  }
  isBusy = false;
  $("status").textContent = "";
}

function refresh() {
  if (!files.a || !files.b) {
    next = null;
    showProblem("");
    return hide();
  }
  enqueue(async () => {
    try {
      comparison = await ask("/api/compare");
    } catch (error) {
      hide();
      throw error;
    }
    if (!files.a || !files.b) return hide(); // one was removed meanwhile
    patches = null;
    $("keypoint").value = "";
    $("invitation").hidden = true;
    $("result").hidden = false;
    showNumbers();
    showPatches();
    showImages();
  });
}

function requestPatches(side, keypoint) {
  const current = comparison; // numbers of keypoints belong to it
  enqueue(async () => {
    const answer = comparison === current && await ask("/api/patches", {side, keypoint});
    if (comparison !== current) return;
    patches = answer;
    $("keypoint").value = side === "a" ? keypoint : "";
    showPatches();
    draw();
  });
}

function hide() {
  comparison = patches = null;
  $("invitation").hidden = false;
  $("result").hidden = true;
}

// ---- the images and the lines between them

function showImages() {
  for (const side of ["a", "b"]) {
    const image = $(`image-${side}`), [width, height] = comparison[`size_${side}`];
    image.style.setProperty("--aspect", width / height);
    const address = preview(side).src;
    if (image.src !== address) image.src = address;
  }
  const [a, b] = [comparison.size_a, comparison.size_b];
  $("images").style.setProperty("--aspects", a[0] / a[1] + b[0] / b[1]);
  draw();
}

function box(side) {
  const image = $(`image-${side}`);
  return {left: image.offsetLeft, top: image.offsetTop, scale: image.offsetWidth / comparison[`size_${side}`][0],
    right: image.offsetLeft + image.offsetWidth, bottom: image.offsetTop + image.offsetHeight};
}

function place(side, point) {
  const {left, top, scale} = box(side);
  return point.map((value, axis) => (axis ? top : left) + (value + 0.5) * scale);
}

function draw() {
  if (!comparison) return;
  const {result} = comparison, svg = $("lines"), count = result.matches;
  const all = {a: comparison.all_a.map((point) => place("a", point)), b: comparison.all_b.map((point) => place("b", point))};
  const kept = Math.min(count, MAX_LINES);
  const rows = Array.from({length: kept}, (_, number) => Math.round((number * (count - 1)) / Math.max(kept - 1, 1)));
  const agrees = (row) => result.is_inlier?.[row];
  rows.sort((one, other) => Boolean(agrees(one)) - Boolean(agrees(other))); // those that agree on top
  drawn = rows.map((row) => {
    const keypoints = result.indices[row], ends = [all.a[keypoints[0]], all.b[keypoints[1]]];
    const [[x1, y1], [x2, y2]] = ends;
    const kind = result.is_inlier ? (agrees(row) ? "agrees" : "disagrees") : "unknown";
    const group = shape("g", {class: kind}, shape("line", {x1, y1, x2, y2}), ...ends.map(([cx, cy]) => shape("circle", {cx, cy, r: 2.8})));
    // Neighbors get similar colors, so that a line can be followed and a stray one stands out.
    const [x, y] = result.points_a[row], [width, height] = comparison.size_a;
    if (kind === "agrees") group.style.color = `hsl(${75 + (180 * x) / width} 90% ${48 + (26 * y) / height}%)`;
    return {keypoints, ends, group};
  });
  const dots = [...all.a, ...all.b].map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("");
  const casing = drawn.map(({ends: [[x1, y1], [x2, y2]]}) => `M${x1} ${y1}L${x2} ${y2}`).join("");
  const rings = [];
  if (patches) {
    const other = patches.side === "a" ? "b" : "a", [x, y] = all[patches.side][patches.keypoint];
    for (const {keypoint} of patches.views[0].neighbors) {
      const [cx, cy] = all[other][keypoint];
      rings.push(shape("circle", {cx, cy, r: 6, class: "near"}));
    }
    rings.push(shape("circle", {cx: x, cy: y, r: 9, class: "chosen"}));
  }
  svg.replaceChildren(shape("path", {d: dots, class: "found"}), shape("path", {d: casing, class: "casing"}), ...drawn.map(({group}) => group), ...rings);
  svg.setAttribute("aria-label", `lines between both images for ${kept} of ${count} matches`);
}

const distance = ([x, y], [left, top]) => Math.hypot(x - left, y - top);

// Return the line whose end is near a place of the screen, and the side (0 or 1) of that end; null if there is none.
function lineAt(place) {
  let best = null, least = REACH;
  for (const line of drawn) {
    line.ends.forEach((end, side) => {
      if (distance(end, place) < least) [best, least] = [{line, side}, distance(end, place)];
    });
  }
  return best;
}

function pointer(event) {
  const outer = $("images").getBoundingClientRect();
  return [event.clientX - outer.left, event.clientY - outer.top];
}

function follow(line) {
  $("lines").classList.toggle("following", Boolean(line));
  for (const each of drawn) each.group.classList.toggle("followed", each === line);
}

$("images").addEventListener("pointermove", (event) => follow(lineAt(pointer(event))?.line));
$("images").addEventListener("pointerleave", () => follow(null));

$("images").addEventListener("click", (event) => {
  const at = pointer(event), near = lineAt(at);
  if (near) return requestPatches("ab"[near.side], near.line.keypoints[near.side]);
  const side = ["a", "b"].find((name) => {
    const {left, top, right, bottom} = box(name);
    return at[0] >= left && at[0] < right && at[1] >= top && at[1] < bottom;
  });
  if (!side) return;
  const distances = comparison[`all_${side}`].map((point) => distance(place(side, point), at));
  if (!distances.length) return showProblem("no keypoint was found in this image");
  requestPatches(side, distances.indexOf(distances.reduce((one, other) => Math.min(one, other))));
});

new ResizeObserver(draw).observe($("images"));

// ---- numbers and patches

function showNumbers() {
  const {result, baseline} = comparison;
  const difference = (here, there) => (here > there ? "+" : "") + (here - there);
  const rows = [["Keypoints", `${result.keypoints_a} and ${result.keypoints_b}`, "the same", ""]];
  for (const [label, name] of [["Matches", "matches"], ["Inliers", "inliers"]]) {
    rows.push([label, result[name], baseline[name], difference(result[name], baseline[name])]);
  }
  rows.push(["Verdict", ...[result, baseline].map(({verdict}) => VERDICTS[verdict] ?? verdict), ""]);
  if (result.ratio !== null) rows.push(["Ratio", result.ratio.toFixed(2), baseline.ratio.toFixed(2), ""]);
  const head = ["", result.model, baseline.model, "difference"].map((text) => element(text ? "th" : "td", {textContent: text}));
  $("numbers").tHead.replaceChildren(element("tr", {}, ...head));
  $("numbers").tBodies[0].replaceChildren(...rows.map(([label, ...cells]) => element("tr", {},
    element("th", {textContent: label, scope: "row"}), ...cells.map((textContent) => element("td", {textContent})))));
  const agreeing = result.geometry && result.matches ? `, ${result.inliers} agree with one ${GEOMETRIES[result.geometry]}` : "";
  const some = result.matches > MAX_LINES ? ` (${MAX_LINES} drawn)` : "";
  $("verdict").textContent = result.sentence.charAt(0).toUpperCase() + result.sentence.slice(1) + ".";
  $("counts").textContent = `${result.matches} matches${some}${agreeing}; ${result.seconds.toFixed(1)} s.`;
  const legend = result.is_inlier ? {agrees: "agrees with the geometry", disagrees: "does not"} : {unknown: "match"};
  $("legend").replaceChildren(...Object.entries({...legend, found: "keypoint; click one to see its patch"}).map(
    ([className, textContent]) => element("span", {className, textContent})));
  URL.revokeObjectURL($("download").href);
  $("download").href = URL.createObjectURL(new Blob([comparison.csv], {type: "text/csv"}));
  $("command").textContent = comparison.command;
}

function showPatches() {
  if (!patches) return $("patches").replaceChildren();
  const name = files[patches.side].name;
  const text = element("p", {}, `Keypoint ${patches.keypoint} of ${name}, and the nearest of the other image by distance; ✓ is the match, `,
    element("b", {textContent: "green"}), " where the geometry says.");
  $("patches").replaceChildren(text, ...patches.views.map((view) => {
    const own = patch(view.patch, `its patch to ${view.model}`, ["own"]);
    const near = view.neighbors.map((each) => {
      const distance = view.is_binary ? `${each.distance.toFixed(0)} bits` : each.distance.toFixed(3);
      const words = [`patch at distance ${distance}`, each.agrees && "at the right place", each.is_match && "the match"];
      return patch(each.patch, words.filter(Boolean).join(", "), [each.agrees && "agrees", each.is_match && "match"],
        element("figcaption", {textContent: each.is_match ? `✓ ${distance}` : distance}));
    });
    return element("div", {className: "view"}, element("h2", {textContent: view.model}), element("div", {}, own, ...near));
  }));
}

function patch(png, alt, classes, ...more) {
  const image = element("img", {src: `data:image/png;base64,${png}`, alt});
  return element("figure", {className: classes.filter(Boolean).join(" ")}, image, ...more);
}

// ---- choices

for (const name of ["ratio", "max_keypoints"]) {
  const slider = form[name], number = form[`${name}_number`];
  slider.addEventListener("input", () => { number.value = slider.value; refresh(); });
  number.addEventListener("change", () => { slider.value = number.value; refresh(); });
}

function setRatio(value) {
  form.ratio.value = form.ratio_number.value = value.toFixed(2);
}

form.model.addEventListener("change", () => { setRatio(choices.models[form.model.value]); refresh(); });
form.matcher.addEventListener("change", () => {
  form.ratio.disabled = form.ratio_number.disabled = !choices.matchers_with_ratio.includes(form.matcher.value);
  refresh();
});
for (const name of ["baseline", "detector"]) form[name].addEventListener("change", refresh);
form.addEventListener("submit", (event) => event.preventDefault());
$("keypoint").addEventListener("change", () => { if ($("keypoint").value !== "") requestPatches("a", $("keypoint").value); });

async function start() {
  choices = await (await fetch("/api/choices")).json();
  const lists = {model: Object.keys(choices.models), baseline: choices.baselines, detector: choices.detectors, matcher: choices.matchers};
  for (const [name, values] of Object.entries(lists)) form[name].replaceChildren(...values.map((value) => new Option(value)));
  setRatio(choices.models[form.model.value]);
  for (const [name, addresses] of Object.entries(choices.samples)) {
    const button = element("button", {type: "button", textContent: name});
    button.addEventListener("click", async () => {
      const blobs = await Promise.all(addresses.map(async (address) => (await fetch(address)).blob()));
      blobs.forEach((blob, index) => setFile("ab"[index], new File([blob], addresses[index].split("/").pop())));
      refresh();
    });
    $("samples").append(button);
  }
}

start().catch(() => showProblem("the server does not answer"));
