// Which matches agree with one homography or fundamental matrix, and whether both images show the same place
// (patchprint/matching/two_view_geometry.py; the estimator is a RANSAC instead of MAGSAC++).
"use strict";

const THRESHOLD = {homography: 3, fundamental: 1.5}; // pixels
const SAMPLE = {homography: 4, fundamental: 8}, MINIMAL = {homography: 4, fundamental: 7};
const SURFACE = {homography: 2, fundamental: 3}, PARAMETERS = {homography: 8, fundamental: 7}; // of GRIC
const ITERATIONS = 5000, CONFIDENCE = 0.9999, POLISHES = 10, AT_RANDOM = 400;
const MAX_TURN = Math.PI / 6, MAX_ZOOM = Math.log(2);

const times = (a, b) => a.map((_, at) => [0, 1, 2].reduce((sum, k) => sum + a[3 * Math.floor(at / 3) + k] * b[3 * k + (at % 3)], 0));
const transposed = (m) => [m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]];

function inverse(m) {
  const [a, b, c, d, e, f, g, h, i] = m, determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
  return [e * i - f * h, c * h - b * i, b * f - c * e, f * g - d * i, a * i - c * g, c * d - a * f, d * h - e * g, b * g - a * h, a * e - b * d].map((each) => each / determinant);
}

// A vector that eight rows of nine numbers map to zero, by elimination; null where there are several.
function nullVector(rows) {
  const pivots = [], free = Array(9).fill(true);
  for (let r = 0; r < 8; r++) {
    let best = 0, row = r, column = -1;
    for (let i = r; i < 8; i++) {
      for (let j = 0; j < 9; j++) {
        const size = free[j] ? Math.abs(rows[i][j]) : 0;
        if (size > best) { best = size; row = i; column = j; }
      }
    }
    if (best < 1e-9) return null;
    [rows[r], rows[row]] = [rows[row], rows[r]];
    free[column] = false;
    pivots.push(column);
    for (let i = 0; i < 8; i++) {
      const factor = rows[i][column] / rows[r][column];
      if (i !== r && factor) for (let j = 0; j < 9; j++) rows[i][j] -= factor * rows[r][j];
    }
  }
  const last = free.indexOf(true), found = Array(9).fill(0);
  found[last] = 1;
  pivots.forEach((column, r) => { found[column] = -rows[r][last] / rows[r][column]; });
  return found;
}

// Eigenvalues and eigenvectors (as rows) of a symmetric matrix, by Jacobi's rotations.
function eigen(matrix) {
  const n = matrix.length, m = matrix.map((row) => [...row]), vectors = m.map((_, i) => m.map((_, j) => Number(i === j)));
  const small = 1e-24 * m.flat().reduce((sum, each) => sum + each * each, 0);
  const turn = (first, i, second, j, c, s) => {
    const x = first[i], y = second[j];
    first[i] = c * x - s * y;
    second[j] = s * x + c * y;
  };
  for (let sweep = 0; sweep < 30; sweep++) {
    let off = 0;
    for (let p = 0; p < n; p++) {
      for (let q = p + 1; q < n; q++) {
        off += m[p][q] ** 2;
        if (Math.abs(m[p][q]) < 1e-300) continue;
        const theta = (m[q][q] - m[p][p]) / (2 * m[p][q]), t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const c = 1 / Math.sqrt(t * t + 1), s = t * c;
        for (let k = 0; k < n; k++) turn(m[k], p, m[k], q, c, s);
        for (let k = 0; k < n; k++) turn(m[p], k, m[q], k, c, s);
        for (let k = 0; k < n; k++) turn(vectors[p], k, vectors[q], k, c, s);
      }
    }
    if (off <= small) break;
  }
  return {values: m.map((row, i) => row[i]), vectors};
}

// The vector that rows of numbers map to the least.
function leastVector(rows) {
  const size = rows[0].length, matrix = Array.from({length: size}, () => Array(size).fill(0));
  for (const row of rows) for (let i = 0; i < size; i++) for (let j = 0; j < size; j++) matrix[i][j] += row[i] * row[j];
  const {values, vectors} = eigen(matrix);
  return vectors[values.indexOf(Math.min(...values))];
}

// The equations of a match, in the nine numbers of a model.
const equations = {
  homography: ([x, y], [u, v]) => [[x, y, 1, 0, 0, 0, -u * x, -u * y, -u], [0, 0, 0, x, y, 1, -v * x, -v * y, -v]],
  fundamental: ([x, y], [u, v]) => [[u * x, u * y, u, v * x, v * y, v, x, y, 1]],
};

// The nearest matrix of rank two.
function ofRankTwo(m) {
  const t = transposed(m), product = times(t, m);
  const {values, vectors} = eigen([product.slice(0, 3), product.slice(3, 6), product.slice(6)]);
  const v = vectors[values.indexOf(Math.min(...values))], along = [0, 1, 2].map((r) => m[3 * r] * v[0] + m[3 * r + 1] * v[1] + m[3 * r + 2] * v[2]);
  return m.map((each, at) => each - along[Math.floor(at / 3)] * v[at % 3]);
}

function project(m, [x, y]) {
  const depth = m[6] * x + m[7] * y + m[8];
  return depth > 1e-9 ? [(m[0] * x + m[1] * y + m[2]) / depth, (m[3] * x + m[4] * y + m[5]) / depth] : [Infinity, Infinity];
}

// Sampson's distance from an epipolar geometry.
function epipolarError(m, [x, y], [u, v]) {
  const l = m[0] * x + m[1] * y + m[2], n = m[3] * x + m[4] * y + m[5], o = m[0] * u + m[3] * v + m[6], p = m[1] * u + m[4] * v + m[7];
  return Math.abs(l * u + n * v + m[6] * x + m[7] * y + m[8]) / Math.sqrt(Math.max(l * l + n * n + o * o + p * p, 1e-300));
}

// How far a point lies from where a homography moves another.
function transferError(m, [x, y], [u, v]) {
  const depth = m[6] * x + m[7] * y + m[8], dx = (m[0] * x + m[1] * y + m[2]) / depth - u, dy = (m[3] * x + m[4] * y + m[5]) / depth - v;
  return depth > 1e-9 ? Math.sqrt(dx * dx + dy * dy) : Infinity;
}

// Sampson's distance from a homography.
function sampsonError(m, [x, y], [u, v]) {
  const depth = m[6] * x + m[7] * y + m[8], e = [m[0] * x + m[1] * y + m[2] - u * depth, m[3] * x + m[4] * y + m[5] - v * depth];
  const [a, b, c, d] = [m[0] - u * m[6], m[1] - u * m[7], m[3] - v * m[6], m[4] - v * m[7]];
  const p = a * a + b * b + depth ** 2, q = a * c + b * d, r = c * c + d * d + depth ** 2;
  return Math.sqrt((r * e[0] ** 2 - 2 * q * e[0] * e[1] + p * e[1] ** 2) / (p * r - q * q));
}

// A function of two points: the error in pixels that decides about inliers; for homographies the larger one of both images.
function errorOf(kind, model) {
  if (kind === "fundamental") return (a, b) => epipolarError(model, a, b);
  const [there, back] = [model, inverse(model)].map((m) => m.map((each) => each * (Math.sign(m[8]) || 1)));
  return (a, b) => Math.max(transferError(there, a, b), transferError(back, b, a));
}

// Center of points, and a scale at which they lie around 1 from it; as a matrix that moves them there.
function normalization(points) {
  const middle = [0, 1].map((axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length);
  const spread = points.reduce((sum, point) => sum + Math.hypot(point[0] - middle[0], point[1] - middle[1]), 0) / points.length || 1;
  return [1 / spread, 0, -middle[0] / spread, 0, 1 / spread, -middle[1] / spread, 0, 0, 1];
}

// A model that many matches agree with: {model, inliers: [bool]}, or null. `order` has the most trusted matches first.
function estimate(kind, a, b, order) {
  const count = a.length, sample = SAMPLE[kind], limit = THRESHOLD[kind];
  if (count < (kind === "homography" ? 4 : 8)) return null;
  const [toA, toB] = [normalization(a), normalization(b)], [na, nb] = [a.map((p) => project(toA, p)), b.map((p) => project(toB, p))];
  const unnormalize = kind === "homography" ? times.bind(null, inverse(toB)) : times.bind(null, transposed(toB));
  const fit = (rows, solve, weight = () => 1) => {
    let found = solve(rows.flatMap((row) => equations[kind](na[row], nb[row]).map((each) => each.map((value) => value * weight(row)))));
    if (!found) return null;
    if (kind === "fundamental") found = ofRankTwo(found);
    const model = times(unnormalize(found), toA);
    return model.every(Number.isFinite) ? model : null;
  };
  const judge = (model) => {
    const error = errorOf(kind, model);
    let cost = 0;
    const inliers = a.map((point, row) => {
      const off = error(point, b[row]);
      cost += Math.min(off * off || 0, limit * limit);
      return off <= limit;
    });
    return {model, inliers, cost, number: inliers.filter(Boolean).length};
  };
  let best = null, seed = 1, needed = ITERATIONS;
  const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  for (let iteration = 0; iteration < needed; iteration++) {
    const rows = new Set();
    const power = iteration % 2 ? 1 : 3; // every second sample prefers the trusted matches
    for (let tries = 0; rows.size < sample && tries < 100; tries++) rows.add(order[Math.floor(count * random() ** power)]);
    const model = rows.size === sample && fit([...rows], nullVector);
    if (!model) continue;
    let found = judge(model);
    if (best && found.cost >= best.cost) continue;
    for (let polish = 0; polish < POLISHES && found.number >= sample; polish++) {
      const refined = fit(found.inliers.flatMap((each, row) => (each ? [row] : [])), leastVector), better = refined && judge(refined);
      if (!better || better.cost >= found.cost) break;
      found = better;
    }
    best = found;
    const chance = (best.number / count) ** sample;
    needed = Math.min(ITERATIONS, Math.max(50, (2 * Math.log(1 - CONFIDENCE)) / Math.log(1 - Math.min(chance, 1 - 1e-9))));
  }
  if (!best || !best.number || kind === "fundamental") return best && best.number ? best : null;
  // As `fit_robustly` there: Geman and McClure's loss of all matches, here by weighted least squares.
  for (let round = 0; round < POLISHES; round++) {
    const error = errorOf(kind, best.model), scale = 3 / limit, depth = times(times(toB, best.model), inverse(toA)).slice(6);
    const weight = (row) => {
      const off = error(a[row], b[row]) * scale;
      return Number.isFinite(off) ? 1 / (1 + off * off) / Math.abs(depth[0] * na[row][0] + depth[1] * na[row][1] + depth[2]) : 0;
    };
    const model = fit(a.map((_, row) => row), leastVector, weight);
    if (!model) break;
    best = judge(model);
  }
  return best.number ? best : null;
}

const turnOf = (angle) => Math.abs(((((angle + Math.PI) % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI)) - Math.PI);

// Inliers whose change of scale and angle agrees with that of most: [bool] and the common change.
function consistent(change, inliers) {
  const own = change.filter((_, row) => inliers[row]), zooms = own.map(([zoom]) => zoom).sort((a, b) => a - b), half = zooms.length >> 1;
  const zoom = zooms.length % 2 ? zooms[half] : (zooms[half - 1] + zooms[half]) / 2;
  const turn = Math.atan2(own.reduce((sum, [, each]) => sum + Math.sin(each), 0), own.reduce((sum, [, each]) => sum + Math.cos(each), 0));
  const alike = ([z, t]) => Math.abs(z - zoom) <= MAX_ZOOM && turnOf(t - turn) <= MAX_TURN;
  return {agreeing: change.map((each, row) => inliers[row] && alike(each)), alike};
}

const places = (points, cell) => new Set(points.map(([x, y]) => `${rint(x / cell)} ${rint(y / cell)}`)).size;
const evenly = (list) => {
  const count = Math.min(list.length, AT_RANDOM);
  return Array.from({length: count}, (_, i) => list[rint((i * (list.length - 1)) / Math.max(count - 1, 1))]);
};
const changeOf = (one, other) => [Math.log(Math.max(other.scale, 1e-9)) - Math.log(Math.max(one.scale, 1e-9)), other.angle - one.angle];

function logGamma(x) {
  if (x < 10) return logGamma(x + 1) - Math.log(x);
  return (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + 1 / (12 * x) - 1 / (360 * x ** 3) + 1 / (1260 * x ** 5);
}
const logChoose = (total, chosen) => chosen > total ? 0 : (logGamma(total + 1) - logGamma(chosen + 1) - logGamma(total - chosen + 1)) / Math.LN10;

// The probability that both images show the same place, from what agrees in position, scale and angle.
function probability(kind, found, a, b, pairs, fitted) {
  const limit = THRESHOLD[kind];
  if (!found) return fitted.without_evidence;
  const [pa, pb] = [pairs.map(([row]) => a[row]), pairs.map(([, row]) => b[row])], xy = ({x, y}) => [x, y];
  const {agreeing, alike} = consistent(pa.map((each, row) => changeOf(each, pb[row])), found.inliers);
  const error = errorOf(kind, found.model), [someA, someB] = [evenly(a), evenly(b)];
  let near = 0, similar = 0;
  const parts = (some) => some.map((each) => ({at: xy(each), zoom: Math.log(Math.max(each.scale, 1e-9)), angle: each.angle}));
  const others = parts(someB);
  for (const one of parts(someA)) {
    for (const other of others) {
      near += error(one.at, other.at) <= limit;
      similar += alike([other.zoom - one.zoom, other.angle - one.angle]);
    }
  }
  const every = someA.length * someB.length, byPosition = (near + 1) / (every + 1), byFrame = (similar + 1) / (every + 1);
  const number = (keep) => Math.min(...[pa, pb].map((side) => places(side.filter((_, row) => keep(row)).map(xy), limit)));
  const matches = number(() => true), agree = number((row) => agreeing[row]), beyond = Math.max(agree - MINIMAL[kind], 0);
  if (!beyond) return fitted.without_evidence;
  const sample = agree - beyond, choices = Math.log10(Math.max(matches - sample, 1)) + logChoose(matches, agree) + logChoose(agree, sample);
  const accidents = choices + beyond * Math.log10(byPosition) + (agree - 1) * Math.log10(byFrame);
  const numbers = {
    not_by_accident: Math.min(Math.max(-accidents, -20), 30), beyond_sample: Math.log1p(beyond),
    frames: Math.log1p(agree) * -Math.log10(byFrame), fundamental: Number(kind === "fundamental"),
  };
  const logit = Object.entries(fitted.weights).reduce((sum, [name, weight]) => sum + weight * numbers[name], fitted.constant);
  return 1 / (1 + Math.exp(-Math.min(Math.max(logit, -30), 30)));
}

// Torr's criterion; the smaller the better.
function gric(errors, kind, noise) {
  const misfit = errors.reduce((sum, each) => sum + Math.min((each / noise) ** 2, 2 * (4 - SURFACE[kind])), 0);
  return misfit + errors.length * SURFACE[kind] * Math.log(4) + PARAMETERS[kind] * Math.log(4 * Math.max(errors.length, 1));
}

// {geometry, model, inliers, probability, same}: of the geometries that are more than chance the one that GRIC prefers.
function verify(a, b, pairs, order, fitted) {
  const [pa, pb] = [pairs.map(([row]) => [a[row].x, a[row].y]), pairs.map(([, row]) => [b[row].x, b[row].y])];
  const judged = ["homography", "fundamental"].map((geometry) => {
    const found = estimate(geometry, pa, pb, order);
    return {geometry, model: found?.model, inliers: found?.inliers, probability: probability(geometry, found, a, b, pairs, fitted)};
  });
  const finish = (one) => ({...one, same: one.probability >= fitted.same_from});
  const trusted = judged.filter((each) => each.probability >= fitted.different_below);
  if (trusted.length === 1) return finish(trusted[0]);
  if (!trusted.length) {
    const [one, other] = judged;
    return finish({...(other.probability > one.probability ? other : one), model: null, inliers: pairs.map(() => false)});
  }
  const [flat, general] = trusted, change = pairs.map(([one, other]) => changeOf(a[one], b[other]));
  const [first, second] = trusted.map(({inliers}) => inliers.some(Boolean) ? consistent(change, inliers).agreeing : inliers);
  const rows = pairs.flatMap((_, row) => (first[row] || second[row] ? [row] : [])), noise = THRESHOLD.fundamental / 1.96;
  const ofFlat = gric(rows.map((row) => sampsonError(flat.model, pa[row], pb[row])), "homography", noise);
  const ofGeneral = gric(rows.map((row) => epipolarError(general.model, pa[row], pb[row])), "fundamental", noise);
  return finish(ofFlat <= ofGeneral ? flat : general);
}
