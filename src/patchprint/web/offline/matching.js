// Nearest descriptors (patchprint/ops/distances.py, patchprint/matching/matchers).
"use strict";

// The `k` nearest of b for each descriptor of a, in ascending order: index and distance, k for each; -1 where there are fewer.
function nearest(kernels, a, b, dim, k) {
  const rows = a.length / dim, columns = b.length / dim, padded = 8 * Math.ceil(columns / 8);
  const index = new Int32Array(rows * k).fill(-1), distance = new Float32Array(rows * k).fill(Infinity);
  if (!rows || !columns) return {index, distance};
  const square = (values, row) => {
    let sum = 0;
    for (let i = row * dim; i < (row + 1) * dim; i++) sum += values[i] * values[i];
    return sum;
  };
  kernels.scoped(() => {
    // Minus half the square of b's length is added to each product, so that the largest sum is the nearest.
    const lengths = new Float32Array(padded);
    for (let column = 0; column < columns; column++) lengths[column] = -square(b, column) / 2;
    const bias = kernels.put(lengths), weights = kernels.put(packed(dim, columns, (input, output) => b[output * dim + input]));
    const given = kernels.put(a), out = kernels.reserve(4 * padded);
    for (let row = 0; row < rows; row += 4) {
      const [p0, p1, p2, p3] = [0, 1, 2, 3].map((more) => given + 4 * dim * Math.min(row + more, rows - 1));
      kernels.dot(out, out + 4 * padded, out + 8 * padded, out + 12 * padded, p0, p1, p2, p3, 1, 0, 4 * dim, weights, bias, padded / 8, -Infinity);
      for (let more = 0; more < 4 && row + more < rows; more++) {
        const sums = kernels.view(out + 4 * padded * more, columns), best = new Float64Array(k).fill(-Infinity), own = new Int32Array(k).fill(-1);
        for (let column = 0; column < columns; column++) {
          if (sums[column] <= best[k - 1]) continue;
          let at = k - 1;
          for (; at > 0 && sums[column] > best[at - 1]; at--) { best[at] = best[at - 1]; own[at] = own[at - 1]; }
          best[at] = sums[column];
          own[at] = column;
        }
        const length = square(a, row + more), start = (row + more) * k;
        own.forEach((column, at) => {
          index[start + at] = column;
          distance[start + at] = column < 0 ? Infinity : Math.sqrt(Math.max(length - 2 * best[at], 0));
        });
      }
    }
  });
  return {index, distance};
}

// Mutual nearest neighbors: {pairs: [[row of a, row of b]...], distance, ratio} with the ratio to the second nearest of each.
function mutual(kernels, a, b, dim) {
  const there = nearest(kernels, a, b, dim, 2), back = nearest(kernels, b, a, dim, 1), found = {pairs: [], distance: [], ratio: []};
  for (let row = 0; row < a.length / dim; row++) {
    const column = there.index[2 * row];
    if (column < 0 || back.index[column] !== row) continue;
    found.pairs.push([row, column]);
    found.distance.push(there.distance[2 * row]);
    found.ratio.push(there.distance[2 * row] / there.distance[2 * row + 1]);
  }
  return found;
}
