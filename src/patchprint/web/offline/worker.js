// Runs in a Web Worker: answers {id, call, given} with {id, result} or {id, error}.
"use strict";

let kernels, network, onDevice, graphNetwork, data; // onDevice: the network in WebGPU, or null

const calls = {
  // kind: of the kernels, or "webgpu", which takes emulated GPUs also; by default what is fastest
  async start(given) {
    data = given.data;
    kernels = new Kernels(given.kind === "webgpu" ? undefined : given.kind);
    network = new Network(kernels, data.model);
    graphNetwork = data.graph && new GraphNetwork(kernels, data.graph);
    onDevice = [undefined, "webgpu"].includes(given.kind) ? await DeviceNetwork.create(network, Boolean(given.kind)) : null;
    return {kind: kindNow()};
  },

  // Keypoints and descriptors of an image, given as RGBA pixels.
  async describe({pixels, width, height, isPng, maxSize, maxKeypoints}) {
    const clock = stopwatch();
    let gray = toGray(pixels, isPng), [w, h] = [width, height];
    const factor = maxSize && maxSize < Math.max(width, height) ? Math.max(width, height) / maxSize : 1;
    if (factor > 1) ({gray, width: w, height: h} = shrunk(gray, width, height, factor));
    clock("gray");
    const points = findKeypoints(kernels, gray, w, h, maxKeypoints);
    clock("keypoints");
    const levels = pyramid(gray, w, h), {size} = network, patches = new Float32Array(points.length * size * size);
    points.forEach((point, row) => samplePatch(levels, point, data.model.patch_scale, size, patches, row * size * size));
    clock("patches");
    const descriptors = await describePatches(patches, points.length);
    clock("network");
    const shift = 0.5 * factor - 0.5;
    for (const point of points) Object.assign(point, {x: point.x * factor + shift, y: point.y * factor + shift, scale: point.scale * factor});
    return {points, descriptors, kind: kindNow(), seconds: clock.seconds};
  },

  match({a, b, matcher}) {
    const clock = stopwatch();
    const found = matcher === "graph" ? graphMatches(kernels, graphNetwork, a, b, network.dim) : mutual(kernels, a.descriptors, b.descriptors, network.dim);
    clock("matching");
    return {...found, seconds: clock.seconds};
  },

  verify({a, b, pairs, order}) {
    const clock = stopwatch(), found = verify(a, b, pairs, order, data.verdict);
    clock("verification");
    return {...found, seconds: clock.seconds};
  },
};

const kindNow = () => (onDevice ? "webgpu" : kernels.kind);

async function describePatches(patches, count) {
  try {
    if (onDevice) return await onDevice.describe(patches, count);
  } catch {
    onDevice = null; // lost, or out of memory
  }
  return network.describe(patches, count);
}

// clock(name) adds the seconds since the last call to clock.seconds.
function stopwatch() {
  let last = performance.now();
  const clock = (name) => {
    const now = performance.now();
    clock.seconds[name] = (now - last) / 1000;
    last = now;
  };
  clock.seconds = {};
  return clock;
}

// Gray values as patchprint decodes them: of PNG as libpng has them, of JPEG its luma as near as colors tell.
function toGray(pixels, isPng) {
  const gray = new Uint8Array(pixels.length / 4);
  for (let i = 0, at = 0; i < gray.length; i++, at += 4) {
    const r = pixels[at], g = pixels[at + 1], b = pixels[at + 2];
    gray[i] = isPng ? (9797 * r + 19234 * g + 3737 * b) >> 15 : (4899 * r + 9617 * g + 1868 * b + 8192) >> 14;
  }
  return gray;
}

// A smaller copy, each pixel the mean of the area that it covers, as of OpenCV's INTER_AREA.
function shrunk(gray, width, height, factor) {
  const [w, h] = [width, height].map((side) => Math.max(1, rint(side / factor)));
  const parts = (size, count) => Array.from({length: size}, (_, i) => {
    const start = i * factor, stop = Math.min(start + factor, count), own = [];
    for (let at = Math.floor(start); at < stop && at < count; at++) {
      const part = Math.min(at + 1, stop) - Math.max(at, start);
      if (part > 1e-3) own.push([at, part / (stop - start)]);
    }
    return own;
  });
  const [columns, rows] = [parts(w, width), parts(h, height)], out = new Uint8Array(w * h), line = new Float32Array(width);
  rows.forEach((own, y) => {
    line.fill(0);
    for (const [row, part] of own) for (let x = 0; x < width; x++) line[x] += part * gray[row * width + x];
    columns.forEach((some, x) => { out[y * w + x] = rint(some.reduce((sum, [column, part]) => sum + part * line[column], 0)); });
  });
  return {gray: out, width: w, height: h};
}

async function answer({id, call, given}) {
  try {
    self.postMessage({id, result: await calls[call](given)});
  } catch (error) {
    self.postMessage({id, error: error instanceof RangeError ? "the image is too large for the memory of this browser; choose fewer pixels" : String(error)});
  }
}

let last = Promise.resolve(); // one call after the other
self.onmessage = ({data: message}) => { last = last.then(() => answer(message)); };
