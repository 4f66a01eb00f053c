"use strict";
// The state of the page and its controls. `pointed` follows pointer and focus, `held` stays until let go.
const state = {kind: "cross", layer: 0, head: MEAN, pointed: null, held: null};
const $ = id => document.getElementById(id);
const kindNow = () => DATA.kinds[state.kind];
const mapNow = () => mapOf(state.kind, state.layer, state.head);
const headName = head => head === MEAN ? "mean of heads" : `head ${head + 1}`;
let cells = null;

function choose(changes) {
  Object.assign(state, changes);
  if (changes.kind) Object.assign(state, {pointed: null, held: null});
  state.layer = Math.min(state.layer, kindNow().layers - 1);
  if (changes.kind) {
    buildSelects();
    buildTokens();
    buildOverview();
  }
  $("layer").value = state.layer;
  $("head").value = state.head;
  document.querySelectorAll("#kinds input").forEach(input => { input.checked = input.value === state.kind; });
  document.querySelectorAll("#overview button").forEach(button => {
    const chosen = +button.dataset.layer === state.layer && +button.dataset.head === state.head;
    button.setAttribute("aria-pressed", chosen);
    button.tabIndex = chosen ? 0 : -1;
  });
  if (location.protocol !== "about:") {
    history.replaceState(null, "", `#${state.kind}/${state.layer + 1}/${state.head === MEAN ? "mean" : state.head + 1}`);
  }
  show();
}

function show() {
  const map = mapNow(), kind = kindNow(), mark = state.held || state.pointed;
  $("lines-title").textContent = `${kind.title}, layer ${state.layer + 1}, ${headName(state.head)}`;
  drawLines($("strokes"), map, mark);
  cells = drawMatrix($("matrix"), map, kind, mark);
  showTokens(map, mark);
  showReading(map, kind, mark);
}

function showTokens(map, mark) {
  for (const [id, side] of [["queries", "query"], ["keys", "key"]]) {
    [...$(id).children].forEach((button, index) => {
      const own = mark && mark.side === side;
      const weight = !mark || own ? 0 : side === "key" ? map.at(mark.index, index) : map.at(index, mark.index);
      // At most 45%, so that the letters stay legible on it in both themes.
      button.style.setProperty("--share", `${(45 * weight).toFixed(1)}%`);
      button.classList.toggle("active", Boolean(own && mark.index === index));
      const held = Boolean(state.held && state.held.side === side && state.held.index === index);
      button.classList.toggle("held", held);
      button.setAttribute("aria-pressed", held);
    });
  }
}

function showReading(map, kind, mark) {
  const list = $("reading");
  if (!mark) {
    $("reading-title").textContent = "Where does a token look?";
    $("reading-note").textContent = "Choose one on either side.";
    list.replaceChildren();
    return;
  }
  const query = mark.side === "query";
  const token = (query ? kind.queries : kind.keys)[mark.index];
  $("reading-title").textContent = `“${plain(token)}” ${query ? "looks at" : "is looked at by"}`;
  $("reading-note").textContent = query && kind.notes ? kind.notes[mark.index] : "";
  const others = (query ? kind.keys : kind.queries).map((name, index) => (
    {name, weight: query ? map.at(mark.index, index) : map.at(index, mark.index)}));
  others.sort((a, b) => b.weight - a.weight);
  list.replaceChildren(...others.slice(0, 10).filter(other => other.weight >= 0.0005).map(other => {
    const item = document.createElement("li");
    const name = document.createElement("b"), share = document.createElement("span"), bar = document.createElement("i");
    name.textContent = plain(other.name);
    name.dir = "auto";
    share.textContent = percent(other.weight);
    bar.style.width = `${100 * other.weight}%`;
    item.append(name, share, bar);
    return item;
  }));
}

function buildSelects() {
  const kind = kindNow();
  const option = (value, text) => new Option(text, value);
  $("layer").replaceChildren(...Array.from({length: kind.layers}, (_, i) => option(i, `${i + 1} of ${kind.layers}`)));
  $("head").replaceChildren(option(MEAN, "mean of all"),
    ...Array.from({length: kind.heads}, (_, i) => option(i, `${i + 1} of ${kind.heads}`)));
  $("query-side").textContent = kind.querySide;
  $("key-side").textContent = kind.keySide;
}

function buildTokens() {
  const kind = kindNow();
  for (const [id, side, tokens] of [["queries", "query", kind.queries], ["keys", "key", kind.keys]]) {
    $(id).setAttribute("aria-label", side === "query" ? kind.querySide : kind.keySide);
    $(id).replaceChildren(...tokens.map((token, index) => tokenButton(token, side, index)));
  }
  $("strokes").setAttribute("height", ROW * Math.max(kind.queries.length, kind.keys.length));
}

function tokenButton(token, side, index) {
  const button = document.createElement("button");
  button.type = "button";
  button.dir = "auto";
  button.tabIndex = index === 0 ? 0 : -1;
  button.setAttribute("aria-label", `${plain(token)}, token ${index + 1}`);
  if (token.startsWith("\u2581")) {
    const space = document.createElement("span");
    space.className = "space";
    space.textContent = "\u2581";
    button.append(space, token.slice(1));
  } else {
    button.textContent = token;
  }
  const point = () => { state.pointed = {side, index}; show(); };
  button.addEventListener("pointerenter", point);
  button.addEventListener("focus", point);
  for (const leaving of ["pointerleave", "blur"]) {
    button.addEventListener(leaving, () => { state.pointed = null; show(); });
  }
  button.addEventListener("click", () => {
    const same = state.held && state.held.side === side && state.held.index === index;
    state.held = same ? null : {side, index};
    show();
  });
  return button;
}

// Arrow keys inside a list of buttons: one tab stop, then up and down; left and right go to the other side.
function moveBetweenTokens(event) {
  const step = {ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity}[event.key];
  const here = event.target.closest(".tokens");
  const other = {ArrowLeft: $("queries"), ArrowRight: $("keys")}[event.key];
  if (!here || (step === undefined && !other)) return;
  event.preventDefault();
  const buttons = [...(other || here).children];
  const at = [...here.children].indexOf(event.target.closest("button")) + (other ? 0 : step);
  focusOnly(buttons, Math.max(0, Math.min(buttons.length - 1, at)));
}

function focusOnly(buttons, index) {
  buttons.forEach((button, i) => { button.tabIndex = i === index ? 0 : -1; });
  buttons[index].focus();
}
