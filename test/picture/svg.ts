/** Letters that look the same. */
type Stretch = { text: string; color: string; isBold: boolean };

const size = { letter: 8.4, line: 20, font: 14, edge: 16, bar: 28 };
/** Its own background, so that it reads the same on a light page and on a dark one. */
const paper = "#161b22";
const ink = "#e6edf3";

/** The sixteen colours in the order of their numbers; those that no run shows are left to the reader's imagination. */
const colors: Record<number, string> = {
  30: "#484f58",
  31: "#ff7b72",
  32: "#7ee787",
  33: "#e3b341",
  34: "#79c0ff",
  35: "#d2a8ff",
  36: "#76e3ea",
  37: ink,
  90: "#8b949e",
  91: "#ffa198",
  92: "#aff5b4",
  93: "#f8e3a1",
  94: "#a5d6ff",
  95: "#e2c5ff",
  96: "#b3f0ff",
  97: "#ffffff",
};

/** A screen as tmux captures it (`capture-pane -e`), as a picture; `columns` wide and as high as there are lines. */
export function svgOf(screen: string, columns: number): string {
  const lines = screen.trimEnd().split("\n").map(stretchesOf);
  const [width, height] = [columns * size.letter + 2 * size.edge, lines.length * size.line + size.bar + size.edge];
  const dots = ["#ff5f57", "#febc2e", "#28c840"].map(
    (fill, i) => `<circle cx="${20 + i * 18}" cy="16" r="5.5" fill="${fill}"/>`,
  );
  const texts = lines.map((line, i) => textOf(line, size.bar + size.line * (i + 0.75))).filter((text) => text !== "");
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    "<title>A run of vidgen in a terminal</title>",
    `<rect width="${width}" height="${height}" rx="8" fill="${paper}" stroke="#30363d"/>`,
    ...dots,
    `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="${size.font}" fill="${ink}">`,
    ...texts,
    "</g>",
    "</svg>\n",
  ].join("\n");
}

function textOf(line: Stretch[], y: number): string {
  let column = 0;
  const spans = line.map(({ text, color, isBold }) => {
    const [x, length] = [size.edge + column * size.letter, [...text].length];
    column += length;
    if (text.trim() === "") return "";
    // Whatever font there is, a letter is as wide as its column.
    const place = `x="${round(x)}" textLength="${round(length * size.letter)}" lengthAdjust="spacingAndGlyphs"`;
    return `<tspan ${place}${color === ink ? "" : ` fill="${color}"`}${isBold ? ' font-weight="bold"' : ""}>${asXml(text)}</tspan>`;
  });
  return spans.join("") === "" ? "" : `<text y="${round(y)}">${spans.join("")}</text>`;
}

/** A line in stretches of one look each: SGR sequences, the only ones that a capture has. */
function stretchesOf(line: string): Stretch[] {
  const [first = "", ...others] = line.split("\u001b[");
  let [color, isBold] = [ink, false];
  const rest = others.map((part) => {
    const [codes = "", ...text] = part.split("m");
    for (const code of codes.split(";").map(Number)) {
      if (code === 0) [color, isBold] = [ink, false];
      if (code === 1 || code === 22) isBold = code === 1;
      if (code === 2) color = colors[90] ?? ink;
      if (code === 39) color = ink;
      color = colors[code] ?? color;
    }
    return { text: text.join("m"), color, isBold };
  });
  return [{ text: first, color: ink, isBold: false }, ...rest].filter(({ text }) => text !== "");
}

function round(length: number): number {
  return Math.round(length * 10) / 10;
}

function asXml(text: string): string {
  // A picture collapses spaces, however it is told not to.
  return text.replaceAll(" ", "\u00a0").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
