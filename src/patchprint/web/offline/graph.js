// The graph matcher: a small network on candidate matches (patchprint/matching/candidate_graph.py).
"use strict";

const CANDIDATES = 4, NEIGHBORS = 16, SAME_PLACE = 0.1, PLACE_LIMIT = 0.35, ZOOM_LIMIT = 0.7;
const NODE_SIZE = 12, EDGE_SIZE = 8; // features of a node (10) and of an edge (6), with zeros to fill blocks of four
const LEAST_WEIGHT = 1e-3; // edges below it tell nothing
const FEWEST_JUDGED = 8, PER_PIXEL = 0.03, FIT_STEPS = 4, NOISE = 2, RIDGE = 1e-3; // of matches by those around them

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

// The nearest keypoints at other places: NEIGHBORS for each, -1 where there are fewer.
function nearestPlaces(points) {
  const found = new Int32Array(points.length * NEIGHBORS).fill(-1), more = Math.min(2 * NEIGHBORS, points.length);
  const xs = Float64Array.from(points, ({x}) => x), ys = Float64Array.from(points, ({y}) => y);
  points.forEach(({x, y, scale}, row) => {
    const best = new Float64Array(more).fill(Infinity), own = new Int32Array(more);
    for (let i = 0; i < xs.length; i++) {
      const off = (xs[i] - x) ** 2 + (ys[i] - y) ** 2;
      if (off >= best[more - 1]) continue;
      let at = more - 1;
      for (; at > 0 && off < best[at - 1]; at--) { best[at] = best[at - 1]; own[at] = own[at - 1]; }
      best[at] = off;
      own[at] = i;
    }
    const apart = Array.from(own).filter((_, at) => Math.sqrt(best[at]) > SAME_PLACE * scale && best[at] < Infinity);
    apart.slice(0, NEIGHBORS).forEach((each, at) => { found[row * NEIGHBORS + at] = each; });
  });
  return found;
}

// Nodes, the candidates of a in b, and edges from the candidates of neighbors that fit best; source is -1 where there is none.
function buildGraph(a, b, found, back) {
  const count = a.length, {index} = found, nodes = count * CANDIDATES, unit = (distance) => Math.min(distance, 2);
  const node = new Float32Array(nodes * NODE_SIZE), edge = new Float32Array(nodes * NEIGHBORS * EDGE_SIZE), source = new Int32Array(nodes * NEIGHBORS).fill(-1);
  const zoomOf = (row, column) => Math.log(Math.max(b[column].scale / a[row].scale, 1e-9));
  const nearestZooms = a.flatMap((_, row) => (index[row * CANDIDATES] < 0 ? [] : [zoomOf(row, index[row * CANDIDATES])])).sort((x, y) => x - y);
  const common = nearestZooms.length ? nearestZooms[(nearestZooms.length - 1) >> 1] : 0, neighbor = nearestPlaces(a);
  for (let row = 0; row < count; row++) {
    for (let rank = 0; rank < CANDIDATES; rank++) {
      const own = row * CANDIDATES + rank, column = index[own];
      if (column < 0) continue;
      const distance = unit(found.distance[own]), rivalA = unit(found.distance[row * CANDIDATES + (rank ? 0 : 1)]);
      const isBest = back.index[column * CANDIDATES] === row, rivalB = unit(back.distance[column * CANDIDATES + (isBest ? 1 : 0)]);
      const ratio = (rival) => Math.min(distance / Math.max(rival, 1e-6), 4), zoom = zoomOf(row, column);
      node.set([distance, 1 - distance ** 2 / 2, ratio(rivalA), ratio(rivalB), Number(isBest), Number(rank === 0), rank / CANDIDATES,
        Math.min(Math.abs(zoom - common), 4)], own * NODE_SIZE);
      const size = Math.exp(zoom), turn = b[column].angle - a[row].angle, cos = Math.cos(turn) * size, sin = Math.sin(turn) * size;
      let sum = 0, most = 0;
      for (let e = 0; e < NEIGHBORS; e++) {
        const other = neighbor[row * NEIGHBORS + e];
        if (other < 0) continue;
        const dx = a[other].x - a[row].x, dy = a[other].y - a[row].y, length = Math.max(Math.hypot(dx, dy), 1e-6);
        const px = b[column].x + cos * dx - sin * dy, py = b[column].y + sin * dx + cos * dy;
        let least = Infinity, best = null;
        for (let l = 0; l < CANDIDATES; l++) {
          const theirs = index[other * CANDIDATES + l];
          if (theirs < 0) continue;
          const off = Math.hypot(b[theirs].x - px, b[theirs].y - py) / (size * length), change = zoomOf(other, theirs) - zoom;
          const twist = b[theirs].angle - a[other].angle - turn, agreement = Math.max(0.5 + 0.5 * Math.cos(twist), 1e-6);
          const cost = (off / PLACE_LIMIT) ** 2 + (change / ZOOM_LIMIT) ** 2 - Math.log(agreement);
          if (cost < least) [least, best] = [cost, {off, change, twist, from: other * CANDIDATES + l}];
        }
        if (!best) continue;
        const weight = Math.exp(-Math.min(least, 60)), at = own * NEIGHBORS + e;
        sum += weight;
        most = Math.max(most, weight);
        if (weight < LEAST_WEIGHT) continue;
        source[at] = best.from;
        edge.set([weight, Math.min(best.off, 4), clamp(best.change, -3, 3), Math.cos(best.twist), Math.sin(best.twist), Math.log1p(length / a[row].scale)], at * EDGE_SIZE);
      }
      node.set([Math.log1p(sum), most], own * NODE_SIZE + 8);
    }
  }
  return {index, node, edge, source, count: nodes};
}

class GraphNetwork {
  constructor(kernels, packedWeights) {
    Object.assign(this, {kernels, threshold: packedWeights.threshold, tolerance: packedWeights.tolerance, width: packedWeights.width, rounds: packedWeights.rounds, weights: {}});
    const values = decodeHalves(packedWeights.weights);
    let used = 0;
    for (const [name, shape] of Object.entries(packedWeights.shapes)) {
      const count = shape.reduce((product, size) => product * size, 1);
      this.weights[name] = {shape, values: values.subarray(used, (used += count))};
    }
    this.linears = Object.fromEntries(Object.entries(this.weights).flatMap(([name, {shape, values: own}]) => {
      if (shape.length !== 2) return [];
      const [outputs, inputs] = shape, layer = name.replace(/\.weight$/, ""), wide = 4 * Math.ceil(inputs / 4), bias = new Float32Array(8 * Math.ceil(outputs / 8));
      bias.set(this.weights[`${layer}.bias`].values);
      const weight = packed(wide, outputs, (input, output) => (input < inputs ? own[output * inputs + input] : 0));
      return [[layer, {wide, outputs: bias.length, weight: kernels.put(weight), bias: kernels.put(bias)}]];
    }));
  }

  // A linear layer of `rows` rows in the memory of the kernels: the address of the result.
  linear(name, input, rows) {
    const {kernels} = this, {wide, outputs, weight, bias} = this.linears[name], out = kernels.reserve(rows * outputs);
    for (let row = 0; row < rows; row += 4) {
      const [r0, r1, r2, r3] = [0, 1, 2, 3].map((more) => Math.min(row + more, rows - 1)), [i, o] = [4 * wide, 4 * outputs];
      kernels.dot(out + r0 * o, out + r1 * o, out + r2 * o, out + r3 * o, input + r0 * i, input + r1 * i, input + r2 * i, input + r3 * i,
        1, 0, 4 * wide, weight, bias, outputs / 8, -Infinity);
    }
    return out;
  }

  normalized(name, input, rows) {
    const {kernels, width} = this, out = kernels.reserve(rows * width), f = kernels.floats, from = input >> 2, to = out >> 2;
    const {values: weight} = this.weights[`${name}.weight`], {values: bias} = this.weights[`${name}.bias`];
    for (let row = 0; row < rows * width; row += width) {
      let sum = 0, squares = 0;
      for (let i = 0; i < width; i++) sum += f[from + row + i];
      const mean = sum / width;
      for (let i = 0; i < width; i++) squares += (f[from + row + i] - mean) ** 2;
      const factor = 1 / Math.sqrt(squares / width + 1e-5);
      for (let i = 0; i < width; i++) f[to + row + i] = (f[from + row + i] - mean) * factor * weight[i] + bias[i];
    }
    return out;
  }

  activate(address, count) {
    const f = this.kernels.view(address, count);
    for (let i = 0; i < count; i++) f[i] *= sigmoid(f[i]);
  }

  // The logit of each candidate.
  logits(graph) {
    return this.kernels.scoped(() => {
      const {kernels, width} = this, {count} = graph, edges = kernels.put(graph.edge), hidden = this.linear("start.0", kernels.put(graph.node), count);
      this.activate(hidden, count * width);
      const state = this.linear("start.2", hidden, count);
      for (let round = 0; round < this.rounds; round++) kernels.scoped(() => this.round(`layers.${round}`, graph, edges, state));
      const last = this.linear("end.1", this.normalized("end.0", state, count), count);
      this.activate(last, count * width);
      const out = kernels.view(this.linear("end.3", last, count), 8 * count);
      return Float32Array.from({length: count}, (_, at) => (graph.index[at] < 0 ? -Infinity : out[8 * at]));
    });
  }

  // A round of messages, added to the state.
  round(name, {count, source}, edges, state) {
    const {kernels, width} = this, normed = this.normalized(`${name}.norm`, state, count);
    const told = this.linear(`${name}.told`, normed, count), asked = this.linear(`${name}.asked`, normed, count);
    const all = kernels.reserve(count * 4 * width), fits = this.linear(`${name}.fits`, edges, count * NEIGHBORS);
    const f = kernels.floats, [n, t, q, g, ed, m] = [normed, told, asked, fits, edges, all].map((address) => address >> 2);
    const sum = new Float64Array(width), most = new Float64Array(width);
    for (let row = 0; row < count; row++) {
      sum.fill(0);
      most.fill(-Infinity);
      for (let e = 0; e < NEIGHBORS; e++) {
        const at = row * NEIGHBORS + e, from = source[at], weight = from < 0 ? 0 : f[ed + at * EDGE_SIZE];
        for (let i = 0; i < width; i++) {
          let message = 0;
          if (weight) {
            message = f[t + from * width + i] + f[q + row * width + i] + f[g + at * width + i];
            message *= weight * sigmoid(message);
          }
          sum[i] += message;
          if (message > most[i]) most[i] = message;
        }
      }
      const first = row - (row % CANDIDATES);
      for (let i = 0; i < width; i++) {
        const own = f[n + row * width + i], to = m + row * 4 * width + i;
        let siblings = -own;
        for (let k = 0; k < CANDIDATES; k++) siblings += f[n + (first + k) * width + i];
        f[to] = own;
        f[to + width] = sum[i] / 4;
        f[to + 2 * width] = most[i];
        f[to + 3 * width] = siblings / (CANDIDATES - 1);
      }
    }
    const mixed = this.linear(`${name}.mix`, all, count), gated = kernels.reserve(count * width), h = kernels.floats;
    for (let row = 0; row < count; row++) {
      for (let i = 0; i < width; i++) {
        const at = (mixed >> 2) + row * 2 * width + i, value = h[at];
        h[(gated >> 2) + row * width + i] = value * sigmoid(value) * sigmoid(h[at + width]);
      }
    }
    const change = kernels.view(this.linear(`${name}.out`, gated, count), count * width), now = kernels.view(state, count * width);
    for (let i = 0; i < now.length; i++) now[i] += change[i];
  }
}

// The affine map of neighbors x to y [(dx, dy)] with weights: y = fit(x) + predicted; patchprint/matching/local_agreement.py.
function fitAffine(xs, ys, weights) {
  const total = Math.max(weights.reduce((sum, each) => sum + each, 0), 1e-9);
  const mean = (points, axis) => points.reduce((sum, each, at) => sum + weights[at] * each[axis], 0) / total;
  const [mx, my, nx, ny] = [mean(xs, 0), mean(xs, 1), mean(ys, 0), mean(ys, 1)], products = new Float64Array(7);
  xs.forEach(([x, y], at) => {
    const [u, v, p, q, w] = [x - mx, y - my, ys[at][0] - nx, ys[at][1] - ny, weights[at]];
    [u * u, u * v, v * v, u * p, v * p, u * q, v * q].forEach((each, i) => { products[i] += w * each; });
  });
  const [uu, uv, vv, up, vp, uq, vq] = products, a = uu + RIDGE, d = vv + RIDGE, size = a * d - uv * uv;
  const fit = [(d * up - uv * vp) / size, (a * vp - uv * up) / size, (d * uq - uv * vq) / size, (a * vq - uv * uq) / size];
  return {fit, predicted: [nx - fit[0] * mx - fit[1] * my, ny - fit[2] * mx - fit[3] * my]};
}

// How far each match lies from where the matches around it predict it, one way.
function errorsOneWay(a, b, score) {
  const neighbor = nearestPlaces(a);
  return a.map((point, row) => {
    const own = Array.from(neighbor.subarray(row * NEIGHBORS, (row + 1) * NEIGHBORS)).filter((each) => each >= 0);
    const from = (points) => own.map((each) => [points[each].x - points[row].x, points[each].y - points[row].y]);
    const offsets = from(a), ys = from(b), reach = Math.max(1e-6, ...offsets.map(([x, y]) => Math.hypot(x, y)));
    const xs = offsets.map(([x, y]) => [x / reach, y / reach]);
    const near = own.map((each, at) => score[each] * Math.exp(-(Math.hypot(...xs[at]) ** 2)));
    let weights = near, found = fitAffine(xs, ys, weights), noise = Math.max(reach / 2, 4 * NOISE);
    for (let step = 0; step < FIT_STEPS; step++) {
      const {fit, predicted} = found, limit = noise = Math.max(noise / 2, NOISE);
      weights = xs.map(([x, y], at) => {
        const off = Math.hypot(fit[0] * x + fit[1] * y + predicted[0] - ys[at][0], fit[2] * x + fit[3] * y + predicted[1] - ys[at][1]);
        return near[at] / (1 + (off / limit) ** 2) ** 2;
      });
      found = fitAffine(xs, ys, weights);
    }
    const total = Math.max(weights.reduce((sum, each) => sum + each, 0), 1e-9);
    const spread = Math.sqrt(ys.reduce((sum, [x, y], at) => sum + weights[at] * (x * x + y * y), 0) / total);
    return Math.hypot(...found.predicted) / (1 + PER_PIXEL * spread);
  });
}

// The smaller error of both directions; zeros where there are too few matches to judge.
function localErrors(a, b, score) {
  if (a.length < FEWEST_JUDGED) return a.map(() => 0);
  const there = errorsOneWay(a, b, score), back = errorsOneWay(b, a, score);
  return there.map((each, row) => Math.min(each, back[row]));
}

// Matches that the network takes for right, and that lie where the matches around them predict them: {pairs, distance, score}.
function graphMatches(kernels, network, a, b, dim) {
  const there = nearest(kernels, a.descriptors, b.descriptors, dim, CANDIDATES), back = nearest(kernels, b.descriptors, a.descriptors, dim, CANDIDATES);
  const ofA = network.logits(buildGraph(a.points, b.points, there, back)), ofB = network.logits(buildGraph(b.points, a.points, back, there));
  // The mean of both directions, where a candidate is one in both.
  const logits = ofA.map((logit, at) => {
    const row = Math.floor(at / CANDIDATES), column = there.index[at];
    for (let k = 0; column >= 0 && k < CANDIDATES; k++) {
      if (back.index[column * CANDIDATES + k] === row) return (logit + ofB[column * CANDIDATES + k]) / 2;
    }
    return -Infinity;
  });
  const most = new Map(), found = {pairs: [], distance: [], score: []};
  logits.forEach((logit, at) => most.set(there.index[at], Math.max(most.get(there.index[at]) ?? -Infinity, logit)));
  for (let row = 0; row < a.points.length; row++) {
    const own = Array.from(logits.subarray(row * CANDIDATES, (row + 1) * CANDIDATES)), best = Math.max(...own);
    const at = row * CANDIDATES + own.indexOf(best);
    if (best === -Infinity || best < most.get(there.index[at]) || sigmoid(best) < network.threshold) continue;
    found.pairs.push([row, there.index[at]]);
    found.distance.push(there.distance[at]);
    found.score.push(sigmoid(best));
  }
  const errors = localErrors(found.pairs.map(([row]) => a.points[row]), found.pairs.map(([, column]) => b.points[column]), found.score);
  const kept = (values) => values.filter((_, row) => errors[row] < network.tolerance);
  return {pairs: kept(found.pairs), distance: kept(found.distance), score: kept(found.score)};
}
