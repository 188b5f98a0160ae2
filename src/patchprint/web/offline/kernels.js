// Four kernels on float32 numbers in one memory: WebAssembly SIMD, assembled here instruction by instruction, or the same loops in
// plain JavaScript. Pointers are in bytes.
"use strict";

// What a kernel computes, in JavaScript; `f` is the memory as floats.
//   blur      dst[i] = w[0] src[i] + sum_k w[k] (src[i - k step] + src[i + k step]), count a multiple of 16
//   subtract  dst[i] = a[i] - b[i], count a multiple of 16
//   peaks     writes the addresses of groups of four pixels of `middle` in which one may be an extremum; returns the end of the list
//   dot       max(bias[j] + sum_k p[k] weights[k][j], low) for four inputs p and all outputs j; an input is `rows` runs of
//             `run` bytes, `gap` bytes apart; weights and bias are in blocks of 8 outputs (see `packed`)
const inJavaScript = {
  blur(f, dst, src, count, step, weights, radius) {
    dst >>= 2; src >>= 2; step >>= 2; weights >>= 2;
    for (let i = 0; i < count; i++) {
      let sum = f[weights] * f[src + i];
      for (let k = 1; k <= radius; k++) sum += f[weights + k] * (f[src + i - k * step] + f[src + i + k * step]);
      f[dst + i] = sum;
    }
  },
  subtract(f, dst, a, b, count) {
    dst >>= 2; a >>= 2; b >>= 2;
    for (let i = 0; i < count; i++) f[dst + i] = f[a + i] - f[b + i];
  },
  peaks(f, out, below, middle, above, count, step) {
    const list = new Int32Array(f.buffer), around = [below, middle, above].map((each) => each >> 2);
    step >>= 2;
    for (let i = 0; i < count; i++) {
      const value = f[around[1] + i];
      let highest = value > 0, lowest = value < 0;
      for (let layer = 0; layer < 3 && (highest || lowest); layer++) {
        for (let row = -step; row <= step; row += step) {
          for (let at = around[layer] + i + row - 1, end = at + 3; at < end; at++) {
            highest = highest && value >= f[at];
            lowest = lowest && value <= f[at];
          }
        }
      }
      if (highest || lowest) { list[out >> 2] = middle + 4 * (i & ~3); out += 4; i |= 3; }
    }
    return out;
  },
  dot(f, o0, o1, o2, o3, p0, p1, p2, p3, rows, gap, run, weights, bias, blocks, low) {
    run >>= 2; gap >>= 2; weights >>= 2; bias >>= 2;
    const outs = [o0, o1, o2, o3];
    [p0, p1, p2, p3].forEach((start, which) => {
      for (let block = 0, w = weights, b = bias, o = outs[which] >> 2; block < blocks; block++, b += 8, o += 8) {
        let a0 = f[b], a1 = f[b + 1], a2 = f[b + 2], a3 = f[b + 3], a4 = f[b + 4], a5 = f[b + 5], a6 = f[b + 6], a7 = f[b + 7];
        for (let row = 0, p = start >> 2; row < rows; row++, p += gap) {
          for (const end = p + run; p < end; p++, w += 8) {
            const x = f[p];
            a0 += x * f[w]; a1 += x * f[w + 1]; a2 += x * f[w + 2]; a3 += x * f[w + 3];
            a4 += x * f[w + 4]; a5 += x * f[w + 5]; a6 += x * f[w + 6]; a7 += x * f[w + 7];
          }
        }
        [a0, a1, a2, a3, a4, a5, a6, a7].forEach((sum, j) => { f[o + j] = Math.max(sum, low); });
      }
    });
  },
};

// ---- the assembler: instructions are arrays of bytes

const I32 = 0x7f, F32 = 0x7d, V128 = 0x7b;
const unsigned = (n) => n < 128 ? [n] : [(n & 127) | 128, ...unsigned(n >>> 7)];
const signed = (n) => n >= -64 && n < 64 ? [n & 127] : [(n & 127) | 128, ...signed(n >> 7)];
const section = (id, items) => { const bytes = [...unsigned(items.length), ...items.flat()]; return [id, ...unsigned(bytes.length), ...bytes]; };
const simd = (code) => (...operands) => [...operands.flat(), 0xfd, ...unsigned(code)];
const int = (code) => (...operands) => [...operands.flat(), code];
const [fadd, fsub, fmul, fmax, fge, fle, flt, fgt] = [0xe4, 0xe5, 0xe6, 0xe9, 0x46, 0x45, 0x43, 0x44].map(simd);
const [and, or, any, splat, fused] = [0x4e, 0x50, 0x53, 0x13, 0x105].map(simd);
const [iadd, isub, below, isZero] = [0x6a, 0x6b, 0x49, 0x45].map(int);
const number = (n) => [0x41, ...signed(n)];
const load = (place, offset = 0) => [...place, 0xfd, 0x00, 2, ...unsigned(offset)];
const spread = (place, offset = 0) => [...place, 0xfd, 0x09, 2, ...unsigned(offset)]; // one float in all four lanes
const store = (place, value, offset = 0) => [...place, ...value, 0xfd, 0x0b, 2, ...unsigned(offset)];
const storeInt = (place, value) => [...place, ...value, 0x36, 2, 0];
const zeros = [0xfd, 0x0c, ...Array(16).fill(0)];
const repeat = (condition, ...body) => [0x03, 0x40, ...body.flat(Infinity), ...condition, 0x0d, 0, 0x0b]; // do ... while
const block = (...body) => [0x02, 0x40, ...body.flat(Infinity), 0x0b];
const leaveIf = (condition) => [...condition, 0x0d, 0];

// A function: names of its parameters and locals with their types, and its body out of getters and setters of these.
function assemble(parameters, locals, result, body) {
  const names = [...Object.keys(parameters), ...Object.keys(locals)];
  const get = {}, set = {};
  names.forEach((name, index) => {
    get[name] = [0x20, ...unsigned(index)];
    set[name] = (value) => [...value, 0x21, ...unsigned(index)];
  });
  const kinds = Object.values(locals).map((kind) => [1, kind]);
  const code = [...unsigned(kinds.length), ...kinds.flat(), ...body(get, set).flat(Infinity), 0x0b];
  const kindsIn = Object.values(parameters);
  return {type: [0x60, kindsIn.length, ...kindsIn, ...(result ? [1, I32] : [0])], code: [...unsigned(code.length), ...code]};
}

const integers = (...names) => Object.fromEntries(names.map((name) => [name, I32]));
const vectors = (...names) => Object.fromEntries(names.map((name) => [name, V128]));
const four = [0, 1, 2, 3];

function assembleAll(hasFused) {
  const muladd = hasFused ? (a, b, c) => fused(a, b, c) : (a, b, c) => fadd(c, fmul(a, b));
  const advance = (get, set, name, by) => set[name](iadd(get[name], by));
  const blur = assemble(
    integers("dst", "src", "count", "step", "weights", "radius"),
    {...integers("end", "w", "left", "right", "k"), ...vectors("s", "a0", "a1", "a2", "a3")}, false, (get, set) => [
      set.end(iadd(get.dst, [...get.count, ...number(2), 0x74])),
      repeat(below(get.dst, get.end),
        set.s(spread(get.weights)),
        four.map((i) => set[`a${i}`](fmul(get.s, load(get.src, 16 * i)))),
        set.w(get.weights), set.left(get.src), set.right(get.src), set.k(get.radius),
        repeat(get.k,
          set.w(iadd(get.w, number(4))), set.left(isub(get.left, get.step)), set.right(iadd(get.right, get.step)),
          set.s(spread(get.w)),
          four.map((i) => set[`a${i}`](muladd(get.s, fadd(load(get.left, 16 * i), load(get.right, 16 * i)), get[`a${i}`]))),
          set.k(isub(get.k, number(1)))),
        four.map((i) => store(get.dst, get[`a${i}`], 16 * i)),
        advance(get, set, "dst", number(64)), advance(get, set, "src", number(64)))]);
  const subtract = assemble(integers("dst", "a", "b", "count"), integers("end"), false, (get, set) => [
    set.end(iadd(get.dst, [...get.count, ...number(2), 0x74])),
    repeat(below(get.dst, get.end),
      four.map((i) => store(get.dst, fsub(load(get.a, 16 * i), load(get.b, 16 * i)), 16 * i)),
      ["dst", "a", "b"].map((name) => advance(get, set, name, number(64))))]);
  const peaks = assemble(
    integers("out", "below", "middle", "above", "count", "step"),
    {...integers("end", "up", "down"), ...vectors("v", "x", "high", "low")}, true, (get, set) => {
      const compare = (place, offset) => [
        set.x(load(place, offset)), set.high(and(get.high, fge(get.v, get.x))), set.low(and(get.low, fle(get.v, get.x)))];
      // The three rows of a layer; up, down and the layer point one pixel to the left, as offsets are not negative.
      const layer = (name, own) => [
        set.up(isub(isub(get[name], get.step), number(4))), set.down(isub(iadd(get[name], get.step), number(4))),
        own ? set.x([...get.v]) : compare(get[name], 0),
        compare(isub(get[name], number(4)), 0), compare(get[name], 4),
        ["up", "down"].map((row) => [0, 4, 8].map((offset) => compare(get[row], offset))),
        leaveIf(isZero(any(or(get.high, get.low))))];
      return [
        set.end(iadd(get.middle, [...get.count, ...number(2), 0x74])),
        repeat(below(get.middle, get.end),
          block(
            set.v(load(get.middle)), set.high(fgt(get.v, zeros)), set.low(flt(get.v, zeros)),
            layer("middle", true), layer("below", false), layer("above", false),
            storeInt(get.out, get.middle), set.out(iadd(get.out, number(4)))),
          ["below", "middle", "above"].map((name) => advance(get, set, name, number(16)))),
        get.out];
    });
  const sums = four.flatMap((i) => [`s${i}0`, `s${i}1`]);
  const dot = assemble(
    {...integers("o0", "o1", "o2", "o3", "p0", "p1", "p2", "p3", "rows", "gap", "run", "weights", "bias", "blocks"), low: F32},
    {...integers("q0", "q1", "q2", "q3", "y", "end"), ...vectors("w0", "w1", "x", "least", ...sums)}, false, (get, set) => [
      set.least(splat(get.low)),
      repeat(get.blocks,
        set.w0(load(get.bias)), set.w1(load(get.bias, 16)),
        four.map((i) => [set[`s${i}0`](get.w0), set[`s${i}1`](get.w1), set[`q${i}`](get[`p${i}`])]),
        set.y(get.rows),
        repeat(get.y,
          set.end(iadd(get.q0, get.run)),
          repeat(below(get.q0, get.end),
            four.map((k) => [
              set.w0(load(get.weights, 32 * k)), set.w1(load(get.weights, 32 * k + 16)),
              four.map((i) => [
                set.x(spread(get[`q${i}`], 4 * k)),
                set[`s${i}0`](muladd(get.x, get.w0, get[`s${i}0`])), set[`s${i}1`](muladd(get.x, get.w1, get[`s${i}1`]))])]),
            advance(get, set, "weights", number(128)), four.map((i) => advance(get, set, `q${i}`, number(16)))),
          four.map((i) => advance(get, set, `q${i}`, get.gap)),
          set.y(isub(get.y, number(1)))),
        four.map((i) => [
          store(get[`o${i}`], fmax(get[`s${i}0`], get.least)), store(get[`o${i}`], fmax(get[`s${i}1`], get.least), 16),
          advance(get, set, `o${i}`, number(32))]),
        advance(get, set, "bias", number(32)),
        set.blocks(isub(get.blocks, number(1))))]);
  const all = {blur, subtract, peaks, dot}, text = (word) => [word.length, ...new TextEncoder().encode(word)];
  return new Uint8Array([
    0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, Object.values(all).map((each) => each.type)),
    ...section(2, [[...text("page"), ...text("memory"), 0x02, 0, 1]]),
    ...section(3, Object.keys(all).map((_, index) => [index])),
    ...section(7, Object.keys(all).map((name, index) => [...text(name), 0x00, index])),
    ...section(10, Object.values(all).map((each) => each.code)),
  ]);
}

// ---- memory with the kernels on it

class Kernels {
  // kind: "relaxed" (fused multiply-add), "simd" or "javascript"; by default the first that this browser has
  constructor(kind) {
    this.top = 64;
    this.kind = (kind ? [kind] : ["relaxed", "simd"]).find((each) => this.compile(each)) ?? "javascript";
    if (this.kind === "javascript") {
      this.memory = {buffer: new ArrayBuffer(1 << 16)};
      for (const [name, run] of Object.entries(inJavaScript)) this[name] = (...given) => run(this.floats, ...given);
    }
    this.floats = new Float32Array(this.memory.buffer);
  }

  // Whether this browser has the instructions, and allows them on this page.
  compile(kind) {
    if (kind === "javascript") return false;
    try {
      const memory = new WebAssembly.Memory({initial: 1}), code = new WebAssembly.Module(assembleAll(kind === "relaxed"));
      Object.assign(this, new WebAssembly.Instance(code, {page: {memory}}).exports, {memory});
      return true;
    } catch {
      return false;
    }
  }

  // Reserve `count` floats and return the address of the first; what lies there is not cleared.
  reserve(count) {
    const address = this.top;
    this.top += 4 * ((count + 47) & ~15); // kernels work on 16 at a time
    const missing = this.top - this.memory.buffer.byteLength;
    if (missing > 0) {
      const pages = Math.ceil(missing / 65536);
      if (this.kind === "javascript") {
        const larger = new ArrayBuffer(this.memory.buffer.byteLength * 2 + pages * 65536);
        new Uint8Array(larger).set(new Uint8Array(this.memory.buffer));
        this.memory.buffer = larger;
      } else this.memory.grow(pages);
      this.floats = new Float32Array(this.memory.buffer);
    }
    return address;
  }

  // Run something and give back what it reserved.
  scoped(work) {
    const before = this.top;
    try { return work(); } finally { this.top = before; }
  }

  put(values) {
    const address = this.reserve(values.length);
    this.floats.set(values, address >> 2);
    return address;
  }

  view(address, count) {
    return this.floats.subarray(address >> 2, (address >> 2) + count);
  }
}

// Weights for `dot`: of a function (input, output) -> number, in blocks of 8 outputs; what is missing is zero.
function packed(inputs, outputs, weight) {
  const blocks = Math.ceil(outputs / 8), values = new Float32Array(blocks * inputs * 8);
  for (let output = 0; output < outputs; output++) {
    for (let input = 0; input < inputs; input++) values[((output >> 3) * inputs + input) * 8 + (output & 7)] = weight(input, output);
  }
  return values;
}
