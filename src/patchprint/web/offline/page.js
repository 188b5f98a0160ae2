// The page: decodes images, asks the workers, draws. Text is only ever set as textContent.
"use strict";

const TURN = 40, SHRINK = 0.8; // of the turned copy
const data = JSON.parse($("data").textContent);
let features = {a: null, b: null}, matches = null, verified = null; // of the images as they are now

// ---- workers: one for each image

function startWorker() {
  const address = URL.createObjectURL(new Blob([$("worker").textContent], {type: "text/javascript"}));
  const worker = new Worker(address), waiting = new Map();
  let count = 0;
  worker.onmessage = ({data: {id, result, error}}) => {
    const [resolve, reject] = waiting.get(id);
    waiting.delete(id);
    error ? reject(new Error(error)) : resolve(result);
  };
  worker.onerror = (event) => { for (const [, reject] of waiting.values()) reject(new Error(event.message)); };
  return (call, given, moved = []) => new Promise((resolve, reject) => {
    waiting.set(++count, [resolve, reject]);
    worker.postMessage({id: count, call, given}, moved);
  });
}

const kind = new URLSearchParams(location.search).get("kernels") ?? undefined; // "simd", "javascript" or "webgpu", to compare them
const workers = {a: startWorker(), b: startWorker()};
const started = Promise.all(["a", "b"].map((side) => workers[side]("start", {data, kind})));

// ---- from images to verified matches

async function decode(file) {
  const head = new Uint8Array(await file.slice(0, 1).arrayBuffer());
  const bitmap = await createImageBitmap(file, {colorSpaceConversion: "none", premultiplyAlpha: "none"}).catch(() => {
    throw new Error(`${file.name} is not an image that this browser can read`);
  });
  const {width, height} = bitmap, context = element("canvas", {width, height}).getContext("2d", {willReadFrequently: true});
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return {pixels: context.getImageData(0, 0, width, height).data, width, height, isPng: head[0] === 0x89};
}

async function describe(side) {
  const settings = {maxSize: Number(form.max_size.value), maxKeypoints: Number(form.max_keypoints_number.value)};
  const file = files[side], key = JSON.stringify(settings), known = features[side];
  if (known?.file === file && known.key === key) return known;
  const before = performance.now(), image = await decode(file), decoding = (performance.now() - before) / 1000;
  const found = await workers[side]("describe", {...image, ...settings}, [image.pixels.buffer]);
  return {...found, file, key, size: [image.width, image.height], seconds: {decoding, ...found.seconds}};
}

async function run() {
  if (!files.a || !files.b) return hide();
  const before = performance.now(), given = {...files}, [a, b] = await Promise.all([describe("a"), describe("b")]);
  if (files.a !== given.a || files.b !== given.b) return; // another run follows
  const matcher = form.matcher.value;
  if (features.a !== a || features.b !== b || matches?.matcher !== matcher) {
    features = {a, b};
    matches = {...await workers.a("match", {a, b, matcher}), matcher};
  }
  const limit = Number(form.ratio_number.value), isGraph = matcher === "graph";
  const rows = matches.pairs.flatMap((_, row) => (isGraph || matches.ratio[row] < limit ? [row] : []));
  const pairs = rows.map((row) => matches.pairs[row]), distance = rows.map((row) => matches.distance[row]);
  const doubt = rows.map((row) => (isGraph ? -matches.score[row] : matches.ratio[row]));
  const order = rows.map((_, index) => index).sort((one, other) => doubt[one] - doubt[other]);
  const plain = ({points}) => points;
  verified = {...await workers.a("verify", {a: plain(a), b: plain(b), pairs, order}), pairs, distance};
  verified.total = (performance.now() - before) / 1000;
  $("invitation").hidden = true;
  $("result").hidden = false;
  showAbout(a.kind);
  showImages();
  showNumbers();
}

let isBusy = false, isWanted = false;

// Run once more after the current run where something changed meanwhile.
async function refresh() {
  isWanted = true;
  if (isBusy) return;
  isBusy = true;
  while (isWanted) {
    $("status").textContent = files.a && files.b ? "matching …" : "";
    showProblem("");
    const once = () => { isWanted = false; return run(); };
    await started.then(once).catch((error) => { isWanted = false; hide(); showProblem(error.message); });
  }
  isBusy = false;
  $("status").textContent = "";
}

function hide() {
  verified = null;
  $("invitation").hidden = false;
  $("result").hidden = true;
}

// ---- what is shown

function showImages() {
  const aspects = ["a", "b"].map((side) => {
    const image = $(`image-${side}`), [width, height] = features[side].size, address = preview(side).src;
    image.style.setProperty("--aspect", width / height);
    if (image.src !== address) image.src = address;
    return width / height;
  });
  $("images").style.setProperty("--aspects", aspects[0] + aspects[1]);
  draw();
}

function draw() {
  if (!verified) return;
  const place = (side, {x, y}) => {
    const image = $(`image-${side}`), scale = image.offsetWidth / features[side].size[0];
    return [image.offsetLeft + (x + 0.5) * scale, image.offsetTop + (y + 0.5) * scale];
  };
  const {pairs, inliers} = verified, kept = Math.min(pairs.length, MAX_LINES);
  const rows = Array.from({length: kept}, (_, index) => Math.round((index * (pairs.length - 1)) / Math.max(kept - 1, 1)));
  rows.sort((one, other) => Boolean(inliers?.[one]) - Boolean(inliers?.[other])); // those that agree on top
  const ends = rows.map((row) => ["a", "b"].map((side, index) => place(side, features[side].points[pairs[row][index]])));
  const lines = rows.map((row, index) => {
    const [[x1, y1], [x2, y2]] = ends[index], agrees = inliers?.[row];
    const group = shape("g", {class: agrees ? "agrees" : "disagrees"}, shape("line", {x1, y1, x2, y2}), ...ends[index].map(([cx, cy]) => shape("circle", {cx, cy, r: 2.8})));
    // Neighbors get similar colors, so that a line can be followed and a stray one stands out.
    const {x, y} = features.a.points[pairs[row][0]], [width, height] = features.a.size;
    if (agrees) group.style.color = `hsl(${75 + (180 * x) / width} 90% ${48 + (26 * y) / height}%)`;
    return group;
  });
  const dots = ["a", "b"].flatMap((side) => features[side].points.map((point) => place(side, point)));
  const path = dots.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("");
  const casing = ends.map(([[x1, y1], [x2, y2]]) => `M${x1} ${y1}L${x2} ${y2}`).join("");
  $("lines").replaceChildren(shape("path", {d: path, class: "found"}), shape("path", {d: casing, class: "casing"}), ...lines);
  $("lines").setAttribute("aria-label", `lines between both images for ${kept} of ${pairs.length} matches`);
}

new ResizeObserver(draw).observe($("images"));

function showNumbers() {
  const {pairs, inliers, geometry, same, model} = verified, count = inliers?.filter(Boolean).length ?? 0, {a, b} = features;
  const seconds = (value) => `${(1000 * value).toFixed(0)} ms`;
  const rows = [["Keypoints", a.points.length, b.points.length], ["Pixels", a.size.join(" × "), b.size.join(" × ")]];
  for (const [label, name] of [["Decoding", "decoding"], ["Detector", "keypoints"], ["Patches", "patches"], ["Network", "network"]]) {
    rows.push([label, seconds(a.seconds[name]), seconds(b.seconds[name])]);
  }
  rows.push(["Matching", seconds(matches.seconds.matching), ""], ["Verification", seconds(verified.seconds.verification), ""]);
  $("numbers").tBodies[0].replaceChildren(...rows.map(([label, ...cells]) => element("tr", {},
    element("th", {textContent: label, scope: "row"}), ...cells.map((textContent) => element("td", {textContent})))));
  $("verdict").textContent = same ? "Both images show the same place." : "Cannot tell whether both images show the same place.";
  const some = pairs.length > MAX_LINES ? ` (${MAX_LINES} drawn)` : "";
  $("counts").textContent = `${pairs.length} matches${some}` + (model ? `, ${count} agree with one ${GEOMETRIES[geometry]}` : "") + `; ${verified.total.toFixed(1)} s.`;
  const text = (name) => (/[",\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name);
  const places = (side, row) => ["x", "y"].map((axis) => Number(features[side].points[row][axis].toFixed(4)));
  const lines = pairs.map(([i, j], row) => [text(a.file.name), text(b.file.name), i, j, ...places("a", i), ...places("b", j),
    Number(verified.distance[row].toFixed(4)), Number(Boolean(inliers?.[row]))].join());
  const head = "image_a,image_b,index_a,index_b,x_a,y_a,x_b,y_b,distance,inlier";
  URL.revokeObjectURL($("download").href);
  $("download").href = URL.createObjectURL(new Blob([[head, ...lines, ""].join("\n")], {type: "text/csv"}));
  $("command").textContent = command();
}

// The command line that finds the same matches.
function command() {
  const quoted = (text) => (/^[\w.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const words = ["patchprint", "match", files.a.name, files.b.name, "--model", data.model.name, "--matcher", form.matcher.value];
  if (form.matcher.value !== "graph") words.push("--ratio", form.ratio_number.value);
  words.push("--max-keypoints", form.max_keypoints_number.value, "--max-size", form.max_size.value, "--exif", "--out", "matches.png");
  return words.map(quoted).join(" ");
}

// ---- images made here

async function toFile(canvas, name) {
  return new File([await new Promise((resolve) => canvas.toBlob(resolve, "image/png"))], name, {type: "image/png"});
}

// The first image, turned and smaller, on gray.
async function turnedCopy(file) {
  const bitmap = await createImageBitmap(file), {width, height} = bitmap;
  const canvas = element("canvas", {width, height}), context = canvas.getContext("2d");
  context.fillStyle = "#808080";
  context.fillRect(0, 0, width, height);
  context.translate(width / 2, height / 2);
  context.rotate((TURN * Math.PI) / 180);
  context.scale(SHRINK, SHRINK);
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, -width / 2, -height / 2);
  return toFile(canvas, `turned-${file.name.replace(/\.\w+$/, "")}.png`);
}

// A painting of strokes, small ones over large ones, always the same.
function drawExample() {
  const canvas = element("canvas", {width: 800, height: 600}), context = canvas.getContext("2d");
  let seed = 7;
  const random = (size) => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 8) % size;
  context.fillStyle = "#a9b7a0";
  context.fillRect(0, 0, 800, 600);
  context.lineCap = "round";
  for (let width = 90; width >= 7; width *= 0.75) {
    for (let i = 0; i < 6000 / width ** 1.5; i++) {
      const [x, y] = [random(800), random(600)];
      context.strokeStyle = `hsl(${random(4) ? 190 + random(60) : 20 + random(30)} ${20 + random(45)}% ${15 + random(70)}%)`;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(x, y);
      context.quadraticCurveTo(x + random(80) - 40, y + random(80) - 40, x + random(5 * width) - 2.5 * width, y + random(5 * width) - 2.5 * width);
      context.stroke();
    }
  }
  return toFile(canvas, "example.png");
}

async function setTurned(first) {
  if (!first) return showProblem("choose a first image, of which a turned copy can be made");
  const copy = await turnedCopy(first).catch(() => null);
  copy ? setFiles([first, copy]) : showProblem(`${first.name} is not an image that this browser can read`);
}

$("turned").addEventListener("click", () => setTurned(files.a));
$("example").addEventListener("click", async () => setTurned(await drawExample()));
document.querySelector(".camera").hidden = !matchMedia("(pointer: coarse)").matches;

// ---- choices

for (const name of ["ratio", "max_keypoints"]) {
  const slider = form[name], number = form[`${name}_number`];
  slider.addEventListener("input", () => { number.value = slider.value; if (name === "ratio") refresh(); });
  slider.addEventListener("change", refresh);
  number.addEventListener("change", () => { slider.value = number.value; refresh(); });
}
form.matcher.replaceChildren(...["mutual+ratio", ...(data.graph ? ["graph"] : [])].map((value) => new Option(value)));
form.matcher.addEventListener("change", () => {
  form.ratio.disabled = form.ratio_number.disabled = form.matcher.value === "graph";
  refresh();
});
form.max_size.addEventListener("change", refresh);
form.addEventListener("submit", (event) => event.preventDefault());
form.ratio.value = form.ratio_number.value = (data.model.ratio ?? 0.8).toFixed(2);
function showAbout(used) {
  const how = {webgpu: "WebGPU", relaxed: "WebAssembly with fused SIMD", simd: "WebAssembly with SIMD", javascript: "plain JavaScript"}[used];
  $("about").textContent = `${data.model.name}: ${data.model.dim} numbers per keypoint, computed with ${how} in two workers of this page. `
    + `The page is one file; it works offline and asks for nothing. Made by patchprint export (Apache-2.0).`;
}
started.then(([{kind: used}]) => showAbout(used)).catch((error) => showProblem(error.message));
