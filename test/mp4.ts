/** The smallest thing that has the boxes of an .mp4: `ftyp`, `moov`, `mdat`. */
export function tinyMp4(content = "video"): Uint8Array {
  const payload = new TextEncoder().encode(content);
  return new Uint8Array([
    ...box("ftyp", new Uint8Array(8)),
    ...box("moov", new Uint8Array(4)),
    ...box("mdat", payload),
  ]);
}

export function box(type: string, payload: Uint8Array): number[] {
  const size = new DataView(new ArrayBuffer(4));
  size.setUint32(0, payload.length + 8);
  return [...new Uint8Array(size.buffer), ...new TextEncoder().encode(type), ...payload];
}
