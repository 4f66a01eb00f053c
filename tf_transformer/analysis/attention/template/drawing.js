"use strict";
// The matrix, its small copies, and the lines.
const ROW = 26;
const FAINTEST = 0.02;

function colorRamp() {
  const probe = document.createElement("canvas").getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const [zero, one] = ["--zero", "--one"].map(name => {
    probe.fillStyle = style.getPropertyValue(name).trim();
    return [1, 3, 5].map(at => parseInt(probe.fillStyle.slice(at, at + 2), 16));
  });
  return weight => zero.map((value, i) => Math.round(value + (one[i] - value) * Math.min(1, weight)));
}

function drawThumbnail(canvas, map, ramp) {
  canvas.width = map.columns;
  canvas.height = map.rows;
  const image = new ImageData(map.columns, map.rows);
  map.values.forEach((weight, i) => image.data.set([...ramp(weight), 255], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// Draws the map with its tokens and returns where the cells are, in CSS pixels.
function drawMatrix(canvas, map, kind, mark) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink"), edge = style.getPropertyValue("--edge");
  const context = canvas.getContext("2d");
  const cell = Math.max(10, Math.min(24, Math.floor(520 / Math.max(map.rows, map.columns))));
  const font = `${Math.min(13, cell)}px ${getComputedStyle(document.body).fontFamily}`;
  context.font = font;
  const rows = kind.queries.map(plain), columns = kind.keys.map(plain);
  const longest = tokens => Math.ceil(Math.max(...tokens.map(token => context.measureText(token).width))) + 8;
  const left = longest(rows), top = longest(columns);
  const width = left + map.columns * cell + 1, height = top + map.rows * cell + 1;
  const sharp = window.devicePixelRatio || 1;
  canvas.width = width * sharp;
  canvas.height = height * sharp;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  context.scale(sharp, sharp);
  context.font = font;
  context.textBaseline = "middle";
  const ramp = colorRamp();
  for (let row = 0; row < map.rows; row++) {
    for (let column = 0; column < map.columns; column++) {
      context.fillStyle = `rgb(${ramp(map.at(row, column)).join(",")})`;
      context.fillRect(left + column * cell, top + row * cell, cell, cell);
    }
  }
  context.strokeStyle = edge;
  context.strokeRect(left + .5, top + .5, map.columns * cell, map.rows * cell);
  context.fillStyle = ink;
  context.textAlign = "right";
  rows.forEach((token, row) => context.fillText(token, left - 5, top + (row + .5) * cell));
  context.textAlign = "left";
  columns.forEach((token, column) => {
    context.save();
    context.translate(left + (column + .5) * cell, top - 5);
    context.rotate(-Math.PI / 2);
    context.fillText(token, 0, 0);
    context.restore();
  });
  if (mark) {
    context.strokeStyle = style.getPropertyValue("--hold");
    context.lineWidth = 2;
    if (mark.side === "query") context.strokeRect(left, top + mark.index * cell, map.columns * cell, cell);
    else context.strokeRect(left + mark.index * cell, top, cell, map.rows * cell);
  }
  return {left, top, cell};
}

// Draws the lines of all tokens, or only those of the marked one.
function drawLines(svg, map, mark) {
  const lines = [];
  for (let row = 0; row < map.rows; row++) {
    for (let column = 0; column < map.columns; column++) {
      const weight = map.at(row, column);
      if (weight < FAINTEST) continue;
      if (mark && (mark.side === "query" ? row : column) !== mark.index) continue;
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      const ends = {x1: "0", y1: (row + .5) * ROW, x2: "100%", y2: (column + .5) * ROW};
      for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
      line.style.strokeWidth = `${0.6 + 3 * weight}px`;
      line.style.strokeOpacity = Math.min(1, 0.08 + weight).toFixed(3);
      lines.push(line);
    }
  }
  svg.replaceChildren(...lines);
}
