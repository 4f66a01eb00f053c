"use strict";
// What the page was made with: {kinds: {name: {title, querySide, keySide, queries, keys, layers, heads, weights}}}.
// Weights are little-endian 16-bit integers in base64, 65535 is a weight of one.
const DATA = JSON.parse(document.getElementById("data").textContent);
const MEAN = -1;

function decodeWeights(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  return Float32Array.from({length: bytes.length / 2}, (_, i) => view.getUint16(2 * i, true) / 65535);
}

for (const kind of Object.values(DATA.kinds)) kind.values = decodeWeights(kind.weights);

// One map: rows are queries, columns keys; `head` is an index or MEAN.
function mapOf(kindName, layer, head) {
  const kind = DATA.kinds[kindName];
  const rows = kind.queries.length, columns = kind.keys.length, size = rows * columns;
  const start = index => (layer * kind.heads + index) * size;
  let values;
  if (head === MEAN) {
    values = new Float32Array(size);
    for (let h = 0; h < kind.heads; h++) {
      for (let i = 0; i < size; i++) values[i] += kind.values[start(h) + i] / kind.heads;
    }
  } else {
    values = kind.values.subarray(start(head), start(head) + size);
  }
  return {rows, columns, values, at: (row, column) => values[row * columns + column]};
}

function percent(weight) {
  return weight >= 0.0995 || weight === 0 ? `${Math.round(100 * weight)}%` : `${(100 * weight).toFixed(1)}%`;
}

function plain(token) {
  return token.replace(/^\u2581/, "") || token;
}
