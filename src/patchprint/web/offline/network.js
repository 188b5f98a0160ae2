// Descriptors of patches: the layers that `patchprint export` wrote, batch norms already folded into the convolutions.
"use strict";

const BATCH = 16; // patches at a time, whose maps stay in the cache

const decodeBytes = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0)).buffer;

function decodeHalves(text) {
  return Float32Array.from(new Uint16Array(decodeBytes(text)), (bits) => {
    const exponent = (bits >> 10) & 31, fraction = bits & 1023;
    return (bits >> 15 ? -1 : 1) * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
}

class Network {
  constructor(kernels, model) {
    Object.assign(this, {kernels, model, size: model.input_size, dim: model.dim});
    const weights = model.bits === 16 ? decodeHalves(model.weights) : new Int8Array(decodeBytes(model.weights));
    const channels = new Float32Array(decodeBytes(model.channels)), used = {weights: 0, channels: 0};
    const take = (count) => channels.subarray(used.channels, (used.channels += count));
    this.layers = model.layers.map((layer) => {
      if (layer.kind === "conv") {
        const weight = weights.subarray(used.weights, (used.weights += layer.outputs * layer.inputs * layer.kernel ** 2));
        return {...layer, weight, scale: take(layer.outputs), bias: take(layer.outputs)};
      }
      if (layer.kind === "frn") return {...layer, weight: take(layer.channels), bias: take(layer.channels)};
      return layer.kind === "tlu" ? {...layer, least: take(layer.channels)} : layer;
    });
    this.plan();
  }

  // Memory for the maps of a batch (channels last, in blocks of 8, with the zeros of the padding), and where each pixel's inputs are.
  plan() {
    const {kernels, layers} = this, convs = layers.filter((layer) => layer.kind === "conv"), first = layers[0];
    const channels = first.kind === "squares" ? first.count : 1;
    const inside = first.kind === "squares" ? this.size / 2 : this.size;
    if (first.kind === "squares") this.squares = [[4], [4, 2], [4, 3, 2]][channels - 1].map((quarters) => squareTable(this.size, quarters));
    const map = (side, depth, padding) => {
      const full = side + 2 * padding, stride = full * full * depth;
      const made = {side, depth, padding, full, stride, address: kernels.reserve(BATCH * stride)};
      kernels.view(made.address, BATCH * stride).fill(0);
      return made;
    };
    this.input = map(inside, 4 * Math.ceil(channels / 4), convs[0].padding);
    let from = this.input;
    convs.forEach((layer, index) => {
      const {kernel, stride, padding, inputs, outputs} = layer;
      const side = Math.floor((from.side + 2 * padding - kernel) / stride) + 1, depth = 8 * Math.ceil(outputs / 8);
      const to = map(side, depth, convs[index + 1]?.padding ?? 0);
      const position = (input) => [Math.floor(input / from.depth), input % from.depth];
      const weight = (input, output) => {
        const [place, channel] = position(input);
        return channel < inputs ? layer.scale[output] * layer.weight[(output * inputs + channel) * kernel * kernel + place] : 0;
      };
      const bias = new Float32Array(depth);
      bias.set(layer.bias);
      layer.packed = kernels.put(packed(kernel * kernel * from.depth, outputs, weight));
      layer.packedBias = kernels.put(bias);
      layer.places = [];
      for (let item = 0; item < BATCH; item++) {
        for (let y = 0; y < side; y++) {
          for (let x = 0; x < side; x++) {
            const source = item * from.stride + (y * stride * from.full + x * stride) * from.depth;
            const target = item * to.stride + ((y + to.padding) * to.full + x + to.padding) * depth;
            layer.places.push([from.address + 4 * source, to.address + 4 * target]);
          }
        }
      }
      Object.assign(layer, {from, to});
      from = to;
    });
    this.output = from;
  }

  // patches: count * size * size values in [0, 1] -> count * dim values, each descriptor of unit length
  describe(patches, count) {
    const found = new Float32Array(count * this.dim), area = this.size ** 2;
    for (let start = 0; start < count; start += BATCH) {
      const items = Math.min(BATCH, count - start);
      for (let item = 0; item < items; item++) this.prepare(patches.subarray((start + item) * area, (start + item + 1) * area), item);
      let current = this.input;
      for (const layer of this.layers) {
        if (layer.kind === "conv") { this.convolve(layer, items); current = layer.to; }
        else if (layer.kind === "frn" || layer.kind === "tlu") this.change(layer, current, items);
      }
      for (let item = 0; item < items; item++) {
        this.normalize(this.kernels.view(this.output.address + 4 * item * this.output.stride, this.dim), found, start + item);
      }
    }
    return found;
  }

  // Write the first `dim` numbers of `raw` at unit length as descriptor `row`.
  normalize(raw, found, row) {
    const own = raw.subarray(0, this.dim), length = Math.sqrt(own.reduce((sum, each) => sum + each * each, 1e-10));
    own.forEach((each, i) => { found[row * this.dim + i] = each / length; });
  }

  convolve(layer, items) {
    const {kernels} = this, {places, from, to, kernel} = layer, run = 4 * kernel * from.depth, gap = 4 * from.full * from.depth - run;
    const count = (places.length / BATCH) * items, low = layer.relu ? 0 : -Infinity;
    for (let at = 0; at < count; at += 4) {
      const [a, b, c, d] = [0, 1, 2, 3].map((more) => places[Math.min(at + more, count - 1)]);
      kernels.dot(a[1], b[1], c[1], d[1], a[0], b[0], c[0], d[0], kernel, gap, run, layer.packed, layer.packedBias, to.depth / 8, low);
    }
  }

  // Filter response normalization, or the thresholds after it.
  change(layer, map, items) {
    const f = this.kernels.floats, {side, depth, full, padding} = map;
    for (let item = 0; item < items; item++) {
      const start = (map.address >> 2) + item * map.stride + (padding * full + padding) * depth;
      const each = (channel, work) => {
        for (let y = 0; y < side; y++) for (let x = 0; x < side; x++) work(start + (y * full + x) * depth + channel);
      };
      for (let channel = 0; channel < layer.channels; channel++) {
        if (layer.kind === "tlu") {
          each(channel, (at) => { f[at] = Math.max(f[at], layer.least[channel]); });
          continue;
        }
        let sum = 0;
        each(channel, (at) => { sum += f[at] * f[at]; });
        const factor = layer.weight[channel] / Math.sqrt(sum / side ** 2 + layer.eps), shift = layer.bias[channel];
        each(channel, (at) => { f[at] = f[at] * factor + shift; });
      }
    }
  }

  // What the first convolution sees of a patch.
  prepare(patch, item) {
    const [first] = this.layers, {side, depth, full, padding, address, stride} = this.input, f = this.kernels.floats;
    const squares = this.squares?.map((table) => square(patch, table)) ?? [patch];
    squares.forEach((values, channel) => {
      let sum = 0, squared = 0;
      for (const each of values) sum += each;
      const mean = sum / values.length;
      for (const each of values) squared += (each - mean) ** 2;
      const unit = first.kind === "instance" ? Math.sqrt(squared / values.length + first.eps) : Math.sqrt(squared / (values.length - 1)) + first.eps;
      for (let y = 0, at = 0; y < side; y++) {
        for (let x = 0; x < side; x++, at++) {
          f[(address >> 2) + item * stride + ((y + padding) * full + x + padding) * depth + channel] = (values[at] - mean) / unit;
        }
      }
    });
  }
}

// The middle `quarters` / 4 of a patch's side at half its pixels: the four pixels that each is made of, and their parts.
function squareTable(size, quarters) {
  const half = size / 2, border = (size * (4 - quarters)) / 8, index = new Int32Array(4 * half * half), part = new Float32Array(index.length);
  const along = Array.from({length: half}, (_, i) => {
    if (quarters === 2) return [[border + i, 1], [border + i, 0]];
    if (quarters === 4) return [[2 * i, 1 / 2], [2 * i + 1, 1 / 2]];
    const start = border + 3 * (i >> 1);
    return i % 2 ? [[start + 1, 1 / 3], [start + 2, 2 / 3]] : [[start, 2 / 3], [start + 1, 1 / 3]];
  });
  let at = 0;
  for (const rows of along) {
    for (const columns of along) {
      for (const [row, a] of rows) for (const [column, b] of columns) [index[at], part[at++]] = [row * size + column, a * b];
    }
  }
  return {index, part};
}

function square(patch, {index, part}) {
  const out = new Float32Array(index.length / 4);
  for (let at = 0, i = 0; at < out.length; at++, i += 4) {
    out[at] = part[i] * patch[index[i]] + part[i + 1] * patch[index[i + 1]] + part[i + 2] * patch[index[i + 2]] + part[i + 3] * patch[index[i + 3]];
  }
  return out;
}
