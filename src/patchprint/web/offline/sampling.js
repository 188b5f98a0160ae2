// Patches around keypoints, read from an image pyramid (patchprint/ops/sampling.py, docs/conventions.md).
"use strict";

const SMALLEST_SIDE = 8;

// An image and its halved copies: {pixels: Uint8Array, width, height}. Each is halved before it is rounded.
function pyramid(gray, width, height) {
  const levels = [{pixels: gray, width, height}];
  let current = gray;
  while (Math.min(width, height) >= 2 * SMALLEST_SIDE) {
    current = halved(current, width, height);
    [width, height] = [width >> 1, height >> 1];
    levels.push({pixels: Uint8Array.from(current, rint), width, height});
  }
  return levels;
}

// A binomial filter around the corner that four pixels share; beyond the border the last pixel is repeated.
function halved(values, width, height) {
  const [w, h] = [width >> 1, height >> 1], rows = new Float32Array(h * width), out = new Float32Array(h * w);
  const filter = (a, b, c, d, e, g) => a + g + 5 * (b + e) + 10 * (c + d);
  for (let y = 0; y < h; y++) {
    const r = [-2, -1, 0, 1, 2, 3].map((more) => clamp(2 * y + more, 0, height - 1) * width);
    for (let x = 0; x < width; x++) {
      rows[y * width + x] = filter(values[r[0] + x], values[r[1] + x], values[r[2] + x], values[r[3] + x], values[r[4] + x], values[r[5] + x]);
    }
  }
  const inside = (x) => clamp(x, 0, width - 1);
  for (let y = 0; y < h; y++) {
    for (let x = 0, row = y * width; x < w; x++) {
      const at = 2 * x, isNear = at < 2 || at > width - 4, c = isNear ? inside : (place) => place;
      out[y * w + x] = filter(rows[row + c(at - 2)], rows[row + c(at - 1)], rows[row + at], rows[row + c(at + 1)], rows[row + c(at + 2)], rows[row + c(at + 3)]) / 1024;
    }
  }
  return out;
}

// The patch of a keypoint into `out`, size * size values in [0, 1]; its side is patchScale times the scale.
function samplePatch(levels, {x, y, scale, angle}, patchScale, size, out, start = 0) {
  const spacing = (scale * patchScale) / size, wanted = rint(Math.log2(Math.max(spacing, 1e-6)));
  const level = clamp(wanted, 0, levels.length - 1), shrink = 2 ** -level;
  const {pixels, width, height} = levels[level], right = width - 1, bottom = height - 1;
  const cos = Math.cos(angle) * spacing * shrink, sin = Math.sin(angle) * spacing * shrink, middle = (size - 1) / 2;
  const [cx, cy] = [(x + 0.5) * shrink - 0.5, (y + 0.5) * shrink - 0.5];
  for (let i = 0, at = start; i < size; i++) {
    for (let j = 0; j < size; j++, at++) {
      const px = Math.min(Math.max(cx + cos * (j - middle) - sin * (i - middle), 0), right);
      const py = Math.min(Math.max(cy + sin * (j - middle) + cos * (i - middle), 0), bottom);
      const left = px | 0, top = py | 0, dx = px - left, dy = py - top;
      const corner = top * width + left, stepX = left < right ? 1 : 0, stepY = top < bottom ? width : 0;
      const above = pixels[corner] * (1 - dx) + pixels[corner + stepX] * dx;
      const below = pixels[corner + stepY] * (1 - dx) + pixels[corner + stepX + stepY] * dx;
      out[at] = (above * (1 - dy) + below * dy) / 255;
    }
  }
}
