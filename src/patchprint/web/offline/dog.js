// Keypoints: differences of Gaussians with SIFT's orientations, as patchprint's detector `dog` finds them (D. Lowe, Distinctive image
// features from scale-invariant keypoints, IJCV 60, 2004; constants as in OpenCV, first octave doubled).
"use strict";

const CONTRAST = 0.02, EDGE = 10, SIGMA = 1.6, LAYERS = 3, SIGMA_OF_IMAGE = 0.5;
const BORDER = 5; // pixels of an octave in which nothing is searched
const STEPS = 5; // of the refinement
const BINS = 36, PEAK = 0.8; // orientations: angles of at least so much of the highest peak count
const MARGIN = 16; // pixels beside each row, and rows above and below, for the widest filter
const CELL = 16; // keypoints that a cell of the spreading grid should hold

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// Round half to even, as IEEE arithmetic and with it OpenCV and PyTorch do.
function rint(x) {
  const down = Math.floor(x), rest = x - down;
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
}

// The position of a pixel outside of [0, count), mirrored at the middle of the border pixels.
function mirrored(at, count) {
  const period = Math.max(2 * (count - 1), 1), inside = ((at % period) + period) % period;
  return inside < count ? inside : period - inside;
}

// Half of a normalized Gaussian filter, from the middle outward.
function gaussian(sigma) {
  const radius = (rint(sigma * 8 + 1) | 1) >> 1;
  const half = Array.from({length: radius + 1}, (_, k) => Math.exp((-k * k) / (2 * sigma * sigma)));
  const sum = half.reduce((total, each) => total + 2 * each, -1);
  return half.map((each) => each / sum);
}

class Octave {
  // Images of one size in the memory of the kernels; pixel (x, y) of image i is at floats[at[i] + y * stride + x].
  constructor(kernels, width, height) {
    Object.assign(this, {kernels, width, height, stride: ((width + 15) & ~15) + 2 * MARGIN});
    this.count = this.stride * height;
    this.images = [];
    for (let layer = 1; layer <= LAYERS; layer++) this.images[layer] = kernels.reserve(this.count);
    this.kept = kernels.top; // only these are needed later, for angles and for the next octave
    for (const image of [0, 4, 5, 6]) this.images[image] = kernels.reserve(this.count);
    this.images[7] = this.between = kernels.reserve(this.count + 2 * MARGIN * this.stride); // rows that are blurred, before columns are
    this.at = this.images.map((address) => (address >> 2) + MARGIN);
  }

  blur(from, to, sigma) {
    const {kernels, width, height, stride, count} = this, half = gaussian(sigma), radius = half.length - 1;
    const weights = kernels.put(half), f = kernels.floats, rows = (this.between >> 2) + MARGIN * stride;
    for (let y = 0, row = this.at[from]; y < height; y++, row += stride) {
      for (let k = 1; k <= radius; k++) {
        f[row - k] = f[row + mirrored(-k, width)];
        f[row + width - 1 + k] = f[row + mirrored(width - 1 + k, width)];
      }
    }
    kernels.blur(4 * rows, this.images[from], count, 4, weights, radius);
    for (let k = 1; k <= radius; k++) {
      for (const y of [-k, height - 1 + k]) {
        const source = rows + mirrored(y, height) * stride;
        f.copyWithin(rows + y * stride, source, source + stride);
      }
    }
    kernels.blur(this.images[to], 4 * rows, count, 4 * stride, weights, radius);
  }

  // Blur the first image step by step, and keep layers 1 to 3 and all five differences: the first and the last two of the six images
  // are overwritten by the difference to their neighbor, two differences come to lie behind.
  build() {
    const factor = 2 ** (1 / LAYERS);
    for (let i = 1; i < LAYERS + 3; i++) this.blur(i - 1, i, SIGMA * factor ** (i - 1) * Math.sqrt(factor ** 2 - 1));
    const {images, kernels, count} = this, subtract = (to, a, b) => kernels.subtract(images[to], images[a], images[b], count);
    subtract(0, 1, 0);
    subtract(6, 2, 1);
    subtract(7, 3, 2);
    subtract(5, 5, 4);
    subtract(4, 4, 3);
    this.differences = [0, 6, 7, 4, 5].map((i) => this.at[i]);
  }

  // Visit every pixel that is an extremum among its 26 neighbors: visit(layer, row, column).
  extrema(visit) {
    const {kernels, width, height, stride, differences} = this, rows = height - 2 * BORDER;
    if (rows < 1 || width <= 2 * BORDER) return;
    const list = kernels.reserve(this.count / 4), first = BORDER * stride - MARGIN;
    for (let layer = 1; layer <= LAYERS; layer++) {
      const addresses = [-1, 0, 1].map((more) => 4 * (differences[layer + more] + first));
      const end = kernels.peaks(list, ...addresses, rows * stride, 4 * stride);
      const f = kernels.floats, found = new Int32Array(kernels.memory.buffer, list, (end - list) >> 2);
      for (const address of found) {
        const place = (address >> 2) - differences[layer] + MARGIN, y = Math.floor(place / stride);
        for (let x = (place % stride) - MARGIN, last = x + 4; x < last; x++) {
          if (x >= BORDER && x < width - BORDER && this.isExtremum(f, layer, y, x)) visit(layer, y, x);
        }
      }
    }
  }

  isExtremum(f, layer, y, x) {
    const {stride, differences} = this, offset = y * stride + x, value = f[differences[layer] + offset], sign = value > 0 ? 1 : -1;
    if (value === 0) return false;
    for (let l = layer - 1; l <= layer + 1; l++) {
      for (let row = -stride; row <= stride; row += stride) {
        for (let at = differences[l] + offset + row - 1, end = at + 3; at < end; at++) if (sign * f[at] > sign * value) return false;
      }
    }
    return true;
  }

  // Move an extremum to the vertex of a paraboloid through its neighbors; null where it does not settle, is faint or on an edge.
  refine(layer, y, x) {
    const {kernels: {floats: f}, width, height, stride, differences} = this;
    for (let step = 0; step < STEPS; step++) {
      const here = y * stride + x, [p, c, n] = [-1, 0, 1].map((more) => differences[layer + more] + here);
      const dx = (f[c + 1] - f[c - 1]) / 510, dy = (f[c + stride] - f[c - stride]) / 510, ds = (f[n] - f[p]) / 510;
      const twice = 2 * f[c];
      const dxx = (f[c + 1] + f[c - 1] - twice) / 255, dyy = (f[c + stride] + f[c - stride] - twice) / 255;
      const dss = (f[n] + f[p] - twice) / 255;
      const dxy = (f[c + stride + 1] - f[c + stride - 1] - f[c - stride + 1] + f[c - stride - 1]) / 1020;
      const dxs = (f[n + 1] - f[n - 1] - f[p + 1] + f[p - 1]) / 1020;
      const dys = (f[n + stride] - f[n - stride] - f[p + stride] + f[p - stride]) / 1020;
      const [mx, my, ms] = solve(dxx, dxy, dxs, dyy, dys, dss, -dx, -dy, -ds);
      if (Math.abs(mx) < 0.5 && Math.abs(my) < 0.5 && Math.abs(ms) < 0.5) {
        const response = f[c] / 255 + 0.5 * (dx * mx + dy * my + ds * ms);
        const trace = dxx + dyy, determinant = dxx * dyy - dxy * dxy;
        const isFaint = Math.abs(response) * LAYERS < CONTRAST;
        const isEdge = determinant <= 0 || trace * trace * EDGE >= (EDGE + 1) ** 2 * determinant;
        return isFaint || isEdge ? null : {layer, y, x, mx, my, ms, response: Math.abs(response)};
      }
      if (Math.max(Math.abs(mx), Math.abs(my), Math.abs(ms)) > 1e8) return null;
      x += rint(mx);
      y += rint(my);
      layer += rint(ms);
      const isInside = x >= BORDER && x < width - BORDER && y >= BORDER && y < height - BORDER;
      if (layer < 1 || layer > LAYERS || !isInside) return null;
    }
    return null;
  }

  // The angles of gradients around a pixel that are most frequent, in degrees.
  orientations(layer, y, x, sigma) {
    const {kernels: {floats: f}, width, height, stride} = this, radius = rint(3 * 1.5 * sigma), wide = 1.5 * sigma;
    const sums = new Float64Array(BINS), fade = Float64Array.from({length: radius + 1}, (_, k) => Math.exp((-k * k) / (2 * wide * wide)));
    for (let i = Math.max(-radius, 1 - y); i <= Math.min(radius, height - 2 - y); i++) {
      const row = this.at[layer] + (y + i) * stride + x, ofRow = fade[Math.abs(i)];
      for (let j = Math.max(-radius, 1 - x); j <= Math.min(radius, width - 2 - x); j++) {
        const dx = f[row + j + 1] - f[row + j - 1], dy = f[row + j - stride] - f[row + j + stride];
        sums[rint(degrees(dy, dx) / 10) % BINS] += ofRow * fade[Math.abs(j)] * Math.sqrt(dx * dx + dy * dy);
      }
    }
    const at = (bin) => sums[(bin + BINS) % BINS];
    const smooth = Array.from(sums, (_, bin) => Math.fround((at(bin - 2) + at(bin + 2) + 4 * (at(bin - 1) + at(bin + 1)) + 6 * at(bin)) / 16));
    const least = PEAK * Math.max(...smooth), found = [];
    smooth.forEach((value, bin) => {
      const before = smooth[(bin + BINS - 1) % BINS], after = smooth[(bin + 1) % BINS];
      if (value <= before || value <= after || value < least) return;
      const place = bin + (0.5 * (before - after)) / (before - 2 * value + after);
      const angle = Math.fround(360 - 10 * ((place + BINS) % BINS));
      found.push(angle >= 360 ? 0 : angle);
    });
    return found;
  }
}

// Solve a symmetric system of three equations; zeros where it has no single solution.
function solve(a, b, c, d, e, g, x, y, z) {
  const A = d * g - e * e, B = c * e - b * g, C = b * e - c * d, determinant = a * A + b * B + c * C;
  if (determinant === 0) return [0, 0, 0];
  return [
    (A * x + B * y + C * z) / determinant,
    (B * x + (a * g - c * c) * y + (b * c - a * e) * z) / determinant,
    (C * x + (b * c - a * e) * y + (a * d - b * b) * z) / determinant,
  ];
}

// The angle of (x, y) in [0, 360) by a polynomial that is up to 0.01 degrees off, as OpenCV's, whose bins ours must be.
function degrees(y, x) {
  const ax = Math.abs(x), ay = Math.abs(y), t = Math.min(ax, ay) / (Math.max(ax, ay) + 2.22e-16), tt = t * t;
  let angle = (((-0.04432655554792128 * tt + 0.1555786518463281) * tt - 0.3258083974640975) * tt + 0.9997878412794807) * t * (180 / Math.PI);
  if (ay > ax) angle = 90 - angle;
  if (x < 0) angle = 180 - angle;
  return y < 0 ? 360 - angle : angle;
}

// Twice as wide and as high: the pixels, and the means of neighbors between them.
function doubled(gray, width, height, octave) {
  const f = octave.kernels.floats, {stride} = octave, start = octave.at[1];
  for (let y = 0; y < 2 * height; y++) {
    const above = (y >> 1) * width, below = Math.min((y + 1) >> 1, height - 1) * width, row = start + y * stride;
    for (let x = 0; x < width; x++) {
      const next = Math.min(x + 1, width - 1), here = gray[above + x] + gray[below + x];
      f[row + 2 * x] = here / 2;
      f[row + 2 * x + 1] = (here + gray[above + next] + gray[below + next]) / 4;
    }
  }
}

// Keypoints of a gray image (Uint8Array), strongest first: a list of {x, y, scale, angle, score}, at most `count`, of which every part
// of the image has its share.
function findKeypoints(kernels, gray, width, height, count) {
  if (Math.min(width, height) < 4) return [];
  const octaves = rint(Math.log2(2 * Math.min(width, height)) - 2) + 1, points = [];
  return kernels.scoped(() => {
    let octave = new Octave(kernels, 2 * width, 2 * height);
    doubled(gray, width, height, octave);
    octave.blur(1, 0, Math.sqrt(SIGMA ** 2 - 4 * SIGMA_OF_IMAGE ** 2));
    for (let o = 0; o < octaves; o++) {
      const known = new Set(), current = octave, size = 2 ** o;
      current.build();
      current.extrema((layer, row, column) => {
        const point = current.refine(layer, row, column);
        if (!point) return;
        const key = (point.layer * current.height + point.y) * current.width + point.x;
        if (known.has(key)) return;
        known.add(key);
        const sigma = SIGMA * 2 ** ((point.layer + point.ms) / LAYERS);
        // Positions and scales are those of the image, half of the doubled one.
        const place = {x: Math.fround((point.x + point.mx) * size) / 2, y: Math.fround((point.y + point.my) * size) / 2};
        const orientations = () => current.orientations(point.layer, point.y, point.x, sigma);
        points.push({...place, scale: Math.fround(sigma * size * 2) / 4, score: Math.fround(point.response), orientations});
      });
      if (o + 1 < octaves) octave = halvedOctave(current);
    }
    // Angles take long: only of points that can be among the chosen, which are as many or more.
    const order = (a, b) => b.score - a.score || a.x - b.x || a.y - b.y || b.scale - a.scale;
    const likely = strongestAndShares(points.sort(order), count, width, height);
    const found = likely.flatMap(({orientations, ...point}) => orientations().sort((a, b) => a - b).map((angle) => ({...point, angle: Math.fround((angle * Math.PI) / 180)})));
    return spreadOut(found, count, width, height);
  });
}

// The next octave: every second pixel of the image that has twice the blur. It takes the memory of the differences.
function halvedOctave(octave) {
  octave.kernels.top = octave.kept;
  const next = new Octave(octave.kernels, octave.width >> 1, octave.height >> 1), f = octave.kernels.floats;
  for (let y = 0; y < next.height; y++) {
    const from = octave.at[LAYERS] + 2 * y * octave.stride, to = next.at[0] + y * next.stride;
    for (let x = 0; x < next.width; x++) f[to + x] = f[from + 2 * x];
  }
  return next;
}

// For each of the ordered keypoints, whether it belongs to the share of its cell of a grid.
function inShare(ordered, count, width, height, more = 0) {
  const cells = Math.max(1, Math.floor(Math.sqrt(count / CELL))), share = Math.floor(count / cells ** 2) + more;
  const members = new Int32Array(cells ** 2);
  const along = (value, size) => clamp(Math.trunc(Math.fround(Math.fround(Math.fround(value) / size) * cells)), 0, cells - 1);
  return ordered.map(({x, y}) => members[along(y, height) * cells + along(x, width)]++ < share);
}

// The strongest `count` of ordered keypoints; every cell gets its share first.
function spreadOut(ordered, count, width, height) {
  if (ordered.length <= count) return ordered;
  const first = inShare(ordered, count, width, height), missing = count - first.filter(Boolean).length;
  let others = 0;
  return ordered.filter((_, index) => first[index] || others++ < missing).slice(0, count);
}

// Those that spreadOut may choose, and some more, for points without an angle.
function strongestAndShares(ordered, count, width, height) {
  const first = inShare(ordered, count, width, height, 4);
  return ordered.filter((_, index) => index < count + 64 || first[index]);
}
