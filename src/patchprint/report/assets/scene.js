// A scene of points and cameras that turns: WebGL with two small programs. Where there is no WebGL the drawing stays.
(() => {
  "use strict";
  const POINTS = `attribute vec3 place; attribute vec3 color; uniform mat4 view; uniform float unit, size; varying vec3 shade;
    void main() { gl_Position = view * vec4(place * unit, 1.0); gl_PointSize = clamp(size / gl_Position.w, 2.0, 7.0); shade = color; }`;
  const DOTS = `precision mediump float; varying vec3 shade;
    void main() { if (length(gl_PointCoord - 0.5) > 0.5) discard; gl_FragColor = vec4(shade, 1.0); }`;
  const LINES = `attribute vec3 place; uniform mat4 view; void main() { gl_Position = view * vec4(place, 1.0); }`;
  const PLAIN = `precision mediump float; uniform vec3 color; void main() { gl_FragColor = vec4(color, 1.0); }`;
  const EDGES = [0, 1, 0, 2, 0, 3, 0, 4, 1, 2, 2, 3, 3, 4, 4, 1]; // of a camera: its center, then four corners

  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const program = (gl, vertex, fragment) => {
    const made = gl.createProgram();
    [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]].forEach(([kind, source]) => {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(made, shader);
    });
    gl.linkProgram(made);
    return made;
  };
  const buffer = (gl, values) => {
    const made = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, made);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    return made;
  };

  // Around the point `at`: turned by `yaw` and `pitch`, at a `distance`.
  const start = ({ eye, at }) => {
    const distance = Math.hypot(...eye);
    return { at, yaw: Math.atan2(eye[0], eye[2]), pitch: Math.asin(eye[1] / distance), distance };
  };
  const axes = ({ yaw, pitch }) => {
    const [sy, cy, sp, cp] = [Math.sin(yaw), Math.cos(yaw), Math.sin(pitch), Math.cos(pitch)];
    return { right: [cy, 0, -sy], up: [-sy * sp, cp, -cy * sp], back: [sy * cp, sp, cy * cp] };
  };
  const viewOf = (camera, aspect) => {
    const { right, up, back } = axes(camera), focal = aspect < 1 ? 1.7 * aspect : 1.7, near = camera.distance / 200, far = camera.distance * 50 + 50;
    const eye = camera.at.map((value, i) => value + back[i] * camera.distance);
    const shift = (axis) => -(axis[0] * eye[0] + axis[1] * eye[1] + axis[2] * eye[2]);
    const sx = focal / aspect, a = (near + far) / (near - far), b = (2 * near * far) / (near - far), depth = shift(back);
    const columns = [0, 1, 2].map((i) => [sx * right[i], focal * up[i], a * back[i], -back[i]]);
    return new Float32Array([...columns.flat(), sx * shift(right), focal * shift(up), a * depth + b, -depth]);
  };

  const build = (figure) => {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const canvas = document.createElement("canvas");
    const gl = canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
    if (!gl) return;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Points and ${data.names.length} cameras in space; the arrow keys turn them, + and - come nearer and go away`);
    figure.querySelector(".static").after(canvas);
    figure.classList.add("is-live");
    const dots = program(gl, POINTS, DOTS), wires = program(gl, LINES, PLAIN);
    const positions = new Int16Array(bytes(data.positions).buffer), count = positions.length / 3;
    const places = buffer(gl, positions), colors = buffer(gl, bytes(data.colors));
    const corner = (number, which) => data.frusta.slice(15 * number + 3 * which, 15 * number + 3 * which + 3);
    const edges = buffer(gl, new Float32Array(data.names.flatMap((_, number) => EDGES.flatMap((which) => corner(number, which)))));
    let camera = start(data), grain = 1, withCameras = true, waiting = false, red = [0.8, 0.2, 0.15];

    const attribute = (where, name, from, kind, normalized) => {
      const slot = gl.getAttribLocation(where, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, from);
      gl.enableVertexAttribArray(slot);
      gl.vertexAttribPointer(slot, 3, kind, normalized, 0, 0);
    };
    const paint = () => {
      waiting = false;
      const ratio = Math.min(devicePixelRatio || 1, 2), width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
      if (!width || !height) return;
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      const view = viewOf(camera, width / height);
      gl.viewport(0, 0, width, height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.enable(gl.DEPTH_TEST);
      gl.useProgram(dots);
      gl.uniformMatrix4fv(gl.getUniformLocation(dots, "view"), false, view);
      gl.uniform1f(gl.getUniformLocation(dots, "unit"), data.unit);
      gl.uniform1f(gl.getUniformLocation(dots, "size"), (1.2 * height * grain) / Math.sqrt(Math.max(count, 400)));
      attribute(dots, "place", places, gl.SHORT, false);
      attribute(dots, "color", colors, gl.UNSIGNED_BYTE, true);
      gl.drawArrays(gl.POINTS, 0, count);
      if (!withCameras) return;
      gl.disableVertexAttribArray(gl.getAttribLocation(dots, "color"));
      gl.useProgram(wires);
      gl.uniformMatrix4fv(gl.getUniformLocation(wires, "view"), false, view);
      gl.uniform3fv(gl.getUniformLocation(wires, "color"), red);
      attribute(wires, "place", edges, gl.FLOAT, false);
      gl.drawArrays(gl.LINES, 0, EDGES.length * data.names.length);
    };
    const repaint = () => { if (!waiting) { waiting = true; requestAnimationFrame(paint); } };
    const turn = (right, down) => {
      camera.yaw -= right;
      camera.pitch = Math.min(Math.max(camera.pitch + down, -1.55), 1.55);
      repaint();
    };
    const zoom = (factor) => { camera.distance = Math.min(Math.max(camera.distance * factor, 0.02), 60); repaint(); };
    const move = (right, down) => {
      const directions = axes(camera), scale = camera.distance / canvas.clientHeight;
      camera.at = camera.at.map((value, i) => value - directions.right[i] * right * scale + directions.up[i] * down * scale);
      repaint();
    };

    const fingers = new Map();
    const spread = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a.x - b.x, a.y - b.y) || 1; };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    });
    canvas.addEventListener("pointermove", (event) => {
      const last = fingers.get(event.pointerId);
      if (!last) return name(event);
      const [right, down] = [event.clientX - last.x, event.clientY - last.y], before = fingers.size === 2 ? spread() : 1;
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (fingers.size === 2) { zoom(before / spread()); move(right / 2, down / 2); }
      else if (event.buttons === 2 || event.shiftKey) move(right, down);
      else turn(right / 180, down / 180);
    });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => fingers.delete(event.pointerId));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    // The wheel belongs to the page until the reader has clicked into the scene.
    canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== canvas) return;
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 600));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const does = {
        ArrowLeft: () => turn(-0.1, 0), ArrowRight: () => turn(0.1, 0), ArrowUp: () => turn(0, -0.1), ArrowDown: () => turn(0, 0.1),
        "+": () => zoom(0.85), "=": () => zoom(0.85), "-": () => zoom(1 / 0.85),
      }[event.key];
      if (does) { event.preventDefault(); does(); }
    });

    const tools = document.createElement("div"), said = document.createElement("output");
    tools.className = "tools";
    const button = (text, does) => {
      const made = document.createElement("button");
      Object.assign(made, { type: "button", textContent: text });
      made.addEventListener("click", () => { does(made); repaint(); });
      tools.append(made);
      return made;
    };
    button("Start view", () => { camera = start(data); });
    button("Nearer", () => zoom(0.75));
    button("Farther", () => zoom(1 / 0.75));
    button("Larger points", () => { grain = grain > 2.5 ? 0.6 : grain * 1.6; });
    button("Cameras", (made) => { withCameras = !withCameras; made.setAttribute("aria-pressed", withCameras); }).setAttribute("aria-pressed", "true");
    tools.append(said);
    canvas.after(tools);

    // The name of the camera under the pointer.
    const name = (event) => {
      const view = viewOf(camera, canvas.clientWidth / canvas.clientHeight);
      let nearest = 14, found = "";
      data.names.forEach((text, number) => {
        const [x, y, z] = corner(number, 0), at = (row) => view[row] * x + view[4 + row] * y + view[8 + row] * z + view[12 + row];
        const away = Math.hypot(((at(0) / at(3) + 1) / 2) * canvas.clientWidth - event.offsetX, ((1 - at(1) / at(3)) / 2) * canvas.clientHeight - event.offsetY);
        if (at(3) > 0 && away < nearest) { nearest = away; found = text; }
      });
      said.textContent = found;
    };

    const recolor = () => {
      const probe = document.createElement("i");
      probe.style.color = "var(--series-4)";
      document.body.append(probe);
      red = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map((value) => value / 255);
      probe.remove();
      repaint();
    };
    document.addEventListener("theme", recolor);
    canvas.addEventListener("webglcontextlost", () => { figure.classList.remove("is-live"); canvas.remove(); tools.remove(); });
    new ResizeObserver(repaint).observe(canvas);
    recolor();
    paint();
  };
  document.querySelectorAll("figure.scene").forEach(build);
})();
