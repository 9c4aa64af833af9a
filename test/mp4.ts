/** The smallest thing that has the boxes of an .mp4: `ftyp`, `moov`, `mdat`. */
export function tinyMp4(content = "video"): Uint8Array {
  const payload = new TextEncoder().encode(content);
  return new Uint8Array([
    ...box("ftyp", new Uint8Array(8)),
    ...box("moov", new Uint8Array(4)),
    ...box("mdat", payload),
  ]);
}

/** The same with a header that says how long and how large its video is, and beside it a track of sound; `version` 1 has times of 64 bits. */
export function describedMp4(seconds: number, [width, height]: [number, number], version: 0 | 1 = 0): Uint8Array {
  const timescale = 1_000;
  const numbers = (...values: number[]) => {
    const view = new DataView(new ArrayBuffer(values.length * 4));
    for (const [i, value] of values.entries()) view.setUint32(i * 4, value);
    return [...new Uint8Array(view.buffer)];
  };
  const zeros = (count: number) => new Array<number>(count).fill(0);
  const time = (value: number) => (version === 1 ? numbers(0, value) : numbers(value));
  const flags = [version, 0, 0, 0];
  const mvhd = [...flags, ...time(0), ...time(0), ...numbers(timescale), ...time(seconds * timescale), ...zeros(80)];
  const tkhd = (size: [number, number]) => {
    const times = [...time(0), ...time(0), ...numbers(1, 0), ...time(seconds * timescale)];
    return [...flags, ...times, ...zeros(52), ...numbers(...size.map((pixels) => pixels * 65_536))];
  };
  const track = (size: [number, number]) => box("trak", Uint8Array.from(box("tkhd", Uint8Array.from(tkhd(size)))));
  const moov = [...box("mvhd", Uint8Array.from(mvhd)), ...track([0, 0]), ...track([width, height])];
  return new Uint8Array([
    ...box("ftyp", new Uint8Array(8)),
    ...box("mdat", new Uint8Array(5)),
    ...box("moov", Uint8Array.from(moov)),
  ]);
}

export function box(type: string, payload: Uint8Array): number[] {
  const size = new DataView(new ArrayBuffer(4));
  size.setUint32(0, payload.length + 8);
  return [...new Uint8Array(size.buffer), ...new TextEncoder().encode(type), ...payload];
}
