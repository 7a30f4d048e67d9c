"use strict";
// Theme, filters of claims, and for each drawing: values on hover, series to switch off, downloads.
// The page reads the same without this script.

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("shoal-theme", root.dataset.theme); } catch (e) {}
});
for (const group of document.querySelectorAll(".filter")) {
  group.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
    const show = button.dataset.show;
    for (const row of group.parentElement.querySelectorAll("tr.claim")) row.hidden = Boolean(show) && !row.classList.contains(show);
    for (const chapter of group.parentElement.querySelectorAll(".chapter")) chapter.hidden = !chapter.querySelector("tr.claim:not([hidden])");
  });
}

const short = (value) => value === null ? "–" : Number(value.toPrecision(4)).toLocaleString("en");

function table(data) {
  const quote = (text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const rows = [["variant", data.labels.x, data.labels.y, "low", "high", "seeds", "printed"]];
  for (const line of data.series)
    for (const p of line.points)
      rows.push([line.variant, p.x, p.mean, p.low, p.high, line.seeds, p.printed]);
  return rows.map((row) => row.map((cell) => quote(String(cell ?? ""))).join(",")).join("\r\n") + "\r\n";
}

function picture(svg) {
  const copy = svg.cloneNode(true);
  const style = getComputedStyle(document.documentElement);
  const box = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width * 2);
  copy.setAttribute("height", box.height * 2);
  copy.setAttribute("font-family", "sans-serif");
  return new XMLSerializer().serializeToString(copy)
    .replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
}

function download(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);

function hover(svg, data, hidden) {
  svg.addEventListener("pointermove", (event) => {
    const matrix = svg.getScreenCTM();
    if (!matrix) return;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let best = null, nearest = 18 * 18;
    for (const line of data.series) {
      if (hidden.has(line.variant)) continue;
      for (const p of line.points) {
        const distance = (p.at[0] - at.x) ** 2 + (p.at[1] - at.y) ** 2;
        if (distance < nearest) { nearest = distance; best = { line, p }; }
      }
    }
    tip.hidden = best === null;
    if (best === null) return;
    const { line, p } = best;
    const lines = [line.variant, `${data.labels.y}: ${short(p.mean)}`];
    if (p.x !== null) lines.splice(1, 0, `${data.labels.x}: ${short(p.x)}`);
    if (p.low !== null) lines.push(`95%: ${short(p.low)} … ${short(p.high)}`);
    if (p.printed !== null) lines.push(`printed: ${short(p.printed)}`);
    tip.textContent = lines.join("\n");
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${event.clientY + 16}px`;
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
}

for (const article of document.querySelectorAll("article.figure")) {
  const hidden = new Set();
  const panels = [...article.querySelectorAll(".panels figure")].map((figure) => {
    const svg = figure.querySelector("svg");
    const data = JSON.parse(figure.querySelector("script.data").textContent);
    hover(svg, data, hidden);
    const tools = document.createElement("p");
    tools.className = "tools";
    tools.append(
      button("SVG", () => download(`${data.name}.svg`, "image/svg+xml", picture(svg))),
      button("CSV", () => download(`${data.name}.csv`, "text/csv", table(data))),
    );
    svg.after(tools);
    return { svg, data };
  });
  for (const item of article.querySelectorAll(".legend li[data-variant]")) {
    const variant = item.dataset.variant;
    item.tabIndex = 0;
    item.setAttribute("role", "switch");
    item.setAttribute("aria-checked", "true");
    const toggle = () => {
      const off = !hidden.delete(variant) && Boolean(hidden.add(variant));
      item.setAttribute("aria-checked", String(!off));
      for (const { svg, data } of panels) {
        const number = data.series.findIndex((line) => line.variant === variant);
        for (const part of svg.querySelectorAll(`[id$="-series-${number}"], [id$="-band-${number}"]`))
          part.style.display = off ? "none" : "";
      }
    };
    item.addEventListener("click", toggle);
    item.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
    });
  }
}
