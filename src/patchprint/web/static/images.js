// What the page of patchprint serve and the page without a server have in common: choosing two images, and small helpers. A page
// defines refresh(), which answers for the images and settings as they are now.
"use strict";

const MAX_LINES = 100; // more cannot be told apart
const GEOMETRIES = {homography: "homography", fundamental: "fundamental matrix"};
const $ = (id) => document.getElementById(id);
const form = $("question");
const files = {a: null, b: null};

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function shape(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function showProblem(sentence) {
  $("problem").hidden = !sentence;
  $("problem").textContent = sentence;
}

const field = (side) => document.querySelector(`.field[data-side="${side}"]`);
const preview = (side) => field(side).querySelector("img");

function setFile(side, file) {
  const image = preview(side), title = field(side).querySelector("span");
  title.dataset.label ??= title.textContent;
  URL.revokeObjectURL(image.src);
  files[side] = file;
  title.textContent = file ? file.name : title.dataset.label;
  field(side).querySelector(".remove").hidden = !file;
  image.hidden = !file;
  image.onerror = () => { image.hidden = true; }; // what decodes it will say what is wrong
  file ? (image.src = URL.createObjectURL(file)) : image.removeAttribute("src");
}

// Two files fill both fields; one fills the field it was dropped on, else the first empty one.
function setFiles(given, target) {
  if (!given.length) return;
  const side = target?.closest?.(".field")?.dataset.side ?? (files.a ? "b" : "a");
  given.length > 1 ? ["a", "b"].forEach((name, index) => setFile(name, given[index])) : setFile(side, given[0]);
  refresh();
}

for (const input of document.querySelectorAll("input[type=file]")) {
  input.addEventListener("change", () => {
    setFiles([...input.files], input);
    input.value = ""; // the same file can be chosen again
  });
}
for (const side of ["a", "b"]) {
  field(side).querySelector(".remove").addEventListener("click", () => { setFile(side, null); refresh(); });
}
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  setFiles(event.dataTransfer.files, event.target);
});
document.addEventListener("paste", (event) => setFiles(event.clipboardData.files));
