// The convolutions of a network in WebGPU: maps and weights lie as in network.js, and stay on the device from layer to layer.
"use strict";

const ON_DEVICE = 256; // patches at a time, fewer where a map would be too large

const shader = `
  // The input map: its side with the padding, vectors of 4 channels in a pixel. The output map: side without and with its padding.
  override full: u32; override depth: u32; override kernel: u32; override stride: u32;
  override side: u32; override toFull: u32; override toDepth: u32; override padding: u32; override pixels: u32; override low: f32;
  @group(0) @binding(0) var<storage, read> input: array<vec4f>;
  @group(0) @binding(1) var<storage, read> weights: array<vec4f>;
  @group(0) @binding(2) var<storage, read> bias: array<vec4f>;
  @group(0) @binding(3) var<storage, read_write> output: array<vec4f>;

  fn inputAt(pixel: u32) -> u32 {
    let rest = pixel % (side * side);
    return (pixel / (side * side) * full * full + rest / side * stride * full + rest % side * stride) * depth;
  }

  fn outputAt(pixel: u32) -> u32 {
    let rest = pixel % (side * side);
    return (pixel / (side * side) * toFull * toFull + (rest / side + padding) * toFull + rest % side + padding) * toDepth;
  }

  // Eight outputs of four pixels.
  @compute @workgroup_size(64) fn convolve(@builtin(global_invocation_id) id: vec3u) {
    if (4 * id.x >= pixels) { return; }
    var w = id.y * kernel * kernel * depth * 8;
    ${four.map((i) => `
    let pixel${i} = min(4 * id.x + ${i}, pixels - 1);
    var at${i} = inputAt(pixel${i});
    var a${i} = bias[2 * id.y];
    var b${i} = bias[2 * id.y + 1];`).join("")}
    for (var row = 0u; row < kernel; row++) {
      for (var k = 0u; k < kernel * depth; k++) {
        ${[0, 1, 2, 3, 4, 5, 6, 7].map((i) => `let w${i} = weights[w + ${i}];`).join(" ")}
        w += 8;
        ${four.map((i) => `
        let x${i} = input[at${i} + k];
        a${i} += x${i}.x * w0 + x${i}.y * w2 + x${i}.z * w4 + x${i}.w * w6;
        b${i} += x${i}.x * w1 + x${i}.y * w3 + x${i}.z * w5 + x${i}.w * w7;`).join("")}
      }
      ${four.map((i) => `at${i} += full * depth;`).join(" ")}
    }
    ${four.map((i) => `
    let to${i} = outputAt(pixel${i}) + 2 * id.y;
    output[to${i}] = max(a${i}, vec4f(low));
    output[to${i} + 1] = max(b${i}, vec4f(low));`).join("")}
  }`;

class DeviceNetwork {
  // Of a network whose layers the shader has, where a GPU gives the same descriptors as `network`; else null, as without a GPU. Emulated
  // GPUs are slower than WebAssembly, so they are taken where they are asked for only.
  static async create(network, takesEmulated) {
    try {
      const adapter = await self.navigator.gpu?.requestAdapter();
      if (!adapter || !network.layers.every((layer, index) => !index || layer.kind === "conv")) return null;
      if ((adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter) && !takesEmulated) return null;
      const made = new DeviceNetwork(network, await adapter.requestDevice()), count = 3;
      await made.checked(() => made.prepare());
      const patches = Float32Array.from({length: count * network.size ** 2}, (_, i) => 0.5 + Math.sin(i * i) / 2);
      const found = await made.describe(patches, count);
      return network.describe(patches, count).every((value, i) => Math.abs(value - found[i]) < 1e-3) ? made : null;
    } catch {
      return null;
    }
  }

  constructor(network, device) {
    Object.assign(this, {network, device});
  }

  // Run something that uses the device; throws what the device finds wrong with it.
  async checked(work) {
    const filters = ["validation", "out-of-memory", "internal"];
    for (const filter of filters) this.device.pushErrorScope(filter);
    const done = await work();
    for (const error of await Promise.all(filters.map(() => this.device.popErrorScope()))) if (error) throw new Error(error.message);
    return done;
  }

  async prepare() {
    const {device, network} = this, {kernels} = network, {STORAGE, COPY_SRC, COPY_DST} = GPUBufferUsage;
    const convs = network.layers.slice(1), largest = Math.max(...[network.input, ...convs.map(({to}) => to)].map(({stride}) => 4 * stride));
    this.batch = BATCH * Math.floor(Math.min(ON_DEVICE, device.limits.maxStorageBufferBindingSize / largest) / BATCH);
    if (!this.batch) throw new Error("the maps are too large");
    const buffer = (count) => device.createBuffer({size: 4 * count, usage: STORAGE | COPY_SRC | COPY_DST}); // zeros at first
    const put = (address, count) => {
      const made = buffer(count);
      device.queue.writeBuffer(made, 0, kernels.view(address, count));
      return made;
    };
    this.input = this.output = buffer(this.batch * network.input.stride);
    const module = device.createShaderModule({code: shader});
    this.steps = [];
    for (const {from, to, kernel, stride, relu, packed, packedBias} of convs) {
      const {side} = to, input = this.output;
      const constants = {full: from.full, depth: from.depth / 4, kernel, stride, side, toFull: to.full, toDepth: to.depth / 4,
        padding: to.padding, pixels: this.batch * side * side, low: relu ? 0 : -3e38};
      const pipeline = await device.createComputePipelineAsync({layout: "auto", compute: {module, constants}});
      const given = [input, put(packed, kernel * kernel * from.depth * to.depth), put(packedBias, to.depth), buffer(this.batch * to.stride)];
      const entries = given.map((each, binding) => ({binding, resource: {buffer: each}}));
      this.output = given[3];
      this.steps.push({pipeline, side, blocks: to.depth / 8, group: device.createBindGroup({layout: pipeline.getBindGroupLayout(0), entries})});
    }
  }

  // As Network.describe; rejects where the device fails or is lost.
  async describe(patches, count) {
    const {network, device} = this, {size, input, output} = network, stride = 4 * output.stride;
    if (!count) return new Float32Array(0);
    const read = device.createBuffer({size: count * stride, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST});
    await this.checked(() => {
      for (let start = 0; start < count; start += this.batch) {
        const items = Math.min(this.batch, count - start);
        for (let item = 0; item < items; item += BATCH) {
          const some = Math.min(BATCH, items - item);
          for (let i = 0; i < some; i++) network.prepare(patches.subarray((start + item + i) * size * size, (start + item + i + 1) * size * size), i);
          device.queue.writeBuffer(this.input, 4 * item * input.stride, network.kernels.view(input.address, some * input.stride));
        }
        const encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
        for (const {pipeline, side, blocks, group} of this.steps) {
          pass.setPipeline(pipeline);
          pass.setBindGroup(0, group);
          pass.dispatchWorkgroups(Math.ceil((items * side * side) / 256), blocks);
        }
        pass.end();
        encoder.copyBufferToBuffer(this.output, 0, read, start * stride, items * stride);
        device.queue.submit([encoder.finish()]);
      }
      return read.mapAsync(GPUMapMode.READ);
    });
    const raw = new Float32Array(read.getMappedRange()), found = new Float32Array(count * network.dim);
    for (let item = 0; item < count; item++) network.normalize(raw.subarray(item * output.stride), found, item);
    read.destroy();
    return found;
  }
}
