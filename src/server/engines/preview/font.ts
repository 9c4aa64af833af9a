/** The width of each character that a font has, by code point, in ems. */
export type Advances = ReadonlyMap<number, number>;

/**
 * Reads from an OpenType font which characters it has and how wide they are: the tables `cmap` (in its format 4, which holds the code
 * points up to U+FFFF), `hhea` and `hmtx`. Throws if the font lacks one of them.
 */
export function readAdvances(font: Uint8Array): Advances {
  const view = new DataView(font.buffer, font.byteOffset, font.byteLength);
  const table = findTables(view);
  const unitsPerEm = view.getUint16(table("head") + 18);
  const lastMetric = view.getUint16(table("hhea") + 34) - 1;
  const metrics = table("hmtx");
  const advanceOf = (glyph: number) => view.getUint16(metrics + 4 * Math.min(glyph, lastMetric)) / unitsPerEm;
  return new Map(readGlyphs(view, table("cmap")).map(([codePoint, glyph]) => [codePoint, advanceOf(glyph)]));
}

function findTables(view: DataView): (name: string) => number {
  const offsets = new Map<string, number>();
  for (let i = 0, at = 12; i < view.getUint16(4); i++, at += 16) {
    const name = [0, 1, 2, 3].map((byte) => String.fromCharCode(view.getUint8(at + byte))).join("");
    offsets.set(name, view.getUint32(at + 8));
  }
  return (name) => {
    const offset = offsets.get(name);
    if (offset === undefined) throw new Error(`The font has no table "${name}".`);
    return offset;
  };
}

/** Reads the pairs of code point and glyph. */
function readGlyphs(view: DataView, cmap: number): [codePoint: number, glyph: number][] {
  const start = findFormat4(view, cmap);
  const segments = view.getUint16(start + 6) / 2;
  const ends = start + 14;
  const starts = ends + 2 * segments + 2;
  const glyphs: [number, number][] = [];
  for (let i = 0; i < segments; i++) {
    const at = starts + 2 * i;
    const first = view.getUint16(at);
    const shift = view.getUint16(at + 2 * segments);
    // Zero means "add the shift to the code point"; anything else is a distance in bytes from this very field to the glyph numbers.
    const list = view.getUint16(at + 4 * segments);
    for (let code = first; code <= view.getUint16(ends + 2 * i); code++) {
      const glyph = list === 0 ? code : view.getUint16(at + 4 * segments + list + 2 * (code - first));
      if (glyph !== 0 && code !== 0xffff) glyphs.push([code, (glyph + shift) & 0xffff]);
    }
  }
  return glyphs;
}

function findFormat4(view: DataView, cmap: number): number {
  for (let i = 0; i < view.getUint16(cmap + 2); i++) {
    const start = cmap + view.getUint32(cmap + 4 + 8 * i + 4);
    if (view.getUint16(start) === 4) return start;
  }
  throw new Error("The font has no cmap of format 4.");
}
