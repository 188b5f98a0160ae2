// A click on a heading sorts a table by it; a second one turns the order round. Numbers go by value, dashes last.
(() => {
  "use strict";
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replace(/[,\u202f\s]/g, ""));
    return { text, number: /^[-+\u2212]?[\d.]/.test(text) && !Number.isNaN(number) ? number : null, missing: /^[-\u2013]?$/.test(text) };
  };
  const compare = (a, b, down) => {
    if (a.missing !== b.missing) return a.missing ? 1 : -1;
    const order = a.number !== null && b.number !== null ? a.number - b.number : a.text.localeCompare(b.text, "en", { numeric: true });
    return down ? -order : order;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => compare(value(a, column), value(b, column), down));
        table.tBodies[0].append(...rows);
      });
    });
  }
})();
