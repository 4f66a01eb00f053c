"use strict";
// The grid of all layers and heads, the matrix's pointer, the theme, and the start.
function buildOverview() {
  const kind = kindNow(), heads = [...Array(kind.heads).keys(), MEAN], ramp = colorRamp(), parts = [];
  const name = (text, column) => {
    const label = document.createElement("span");
    label.className = column ? "name column" : "name";
    label.textContent = text;
    return label;
  };
  $("overview").style.gridTemplateColumns = `max-content repeat(${heads.length}, max-content)`;
  parts.push(name(""), ...heads.map(head => name(head === MEAN ? "mean" : `head ${head + 1}`, true)));
  for (let layer = 0; layer < kind.layers; layer++) {
    parts.push(name(`layer ${layer + 1}`), ...heads.map(head => thumbnail(layer, head, ramp)));
  }
  $("overview").replaceChildren(...parts);
}

function thumbnail(layer, head, ramp) {
  const button = document.createElement("button"), canvas = document.createElement("canvas");
  button.type = "button";
  button.dataset.layer = layer;
  button.dataset.head = head;
  button.setAttribute("aria-label", `layer ${layer + 1}, ${headName(head)}`);
  drawThumbnail(canvas, mapOf(state.kind, layer, head), ramp);
  button.append(canvas);
  button.addEventListener("click", () => choose({layer, head}));
  return button;
}

function moveInOverview(event) {
  const buttons = [...$("overview").querySelectorAll("button")];
  const at = buttons.indexOf(event.target), across = kindNow().heads + 1;
  const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across}[event.key];
  if (at < 0 || step === undefined) return;
  event.preventDefault();
  if (buttons[at + step]) buttons[at + step].focus();
}

function cellUnder(event) {
  const box = $("matrix").getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - cells.left) / cells.cell);
  const row = Math.floor((event.clientY - box.top - cells.top) / cells.cell);
  const kind = kindNow();
  return row >= 0 && column >= 0 && row < kind.queries.length && column < kind.keys.length ? {row, column} : null;
}

function pointAtMatrix(event) {
  const cell = cellUnder(event), kind = kindNow();
  state.pointed = cell && {side: "query", index: cell.row};
  $("cell").textContent = cell
    ? `“${plain(kind.queries[cell.row])}” to “${plain(kind.keys[cell.column])}”: ${percent(mapNow().at(cell.row, cell.column))}`
    : "";
  show();
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeChanged() {
  $("theme").textContent = isDark() ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colors`);
  buildOverview();
  choose({});
}

function start() {
  for (const [name, kind] of Object.entries(DATA.kinds)) {
    const label = document.createElement("label"), input = document.createElement("input"), text = document.createElement("span");
    Object.assign(input, {type: "radio", name: "kind", value: name});
    text.textContent = kind.short;
    label.append(input, text);
    $("kinds").append(label);
    input.addEventListener("change", () => choose({kind: name}));
  }
  $("controls").addEventListener("submit", event => event.preventDefault());
  $("layer").addEventListener("change", event => choose({layer: +event.target.value}));
  $("head").addEventListener("change", event => choose({head: +event.target.value}));
  $("lines").addEventListener("keydown", moveBetweenTokens);
  $("overview").addEventListener("keydown", moveInOverview);
  $("matrix").addEventListener("pointermove", pointAtMatrix);
  $("matrix").addEventListener("pointerleave", () => { state.pointed = null; $("cell").textContent = ""; show(); });
  document.addEventListener("keydown", event => { if (event.key === "Escape") { state.held = null; show(); } });
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    themeChanged();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
  const [, kind, layer, head] = /^#(\w+)\/(\d+)\/(\w+)$/.exec(location.hash) || [];
  const known = DATA.kinds[kind];
  choose(known
    ? {kind, layer: Math.max(0, layer - 1), head: head >= 1 && head <= known.heads ? head - 1 : MEAN}
    : {kind: "cross", layer: DATA.kinds.cross.layers - 1});
  themeChanged();
}

start();
