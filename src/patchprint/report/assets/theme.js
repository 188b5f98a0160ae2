// Light or dark: as the system has it, until the reader says otherwise. Others are told by the event "theme".
(() => {
  "use strict";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  root.classList.add("scripted");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const tell = () => document.dispatchEvent(new Event("theme"));
  system.addEventListener("change", tell);
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("button.theme");
    const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.hidden = false;
    button.setAttribute("aria-label", "Switch between light and dark");
    button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; tell(); });
    document.addEventListener("theme", name);
    name();
  });
})();
