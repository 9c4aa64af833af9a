// For `node --import`, with the query ?ms=-120000: the time of day of a program is that much off; its monotonic clock is right.
const skewMs = Number(new URL(import.meta.url).searchParams.get("ms"));
const RealDate = globalThis.Date;
globalThis.Date = class extends RealDate {
  constructor(...given) {
    super(...(given.length === 0 ? [RealDate.now() + skewMs] : given));
  }
  static now() {
    return RealDate.now() + skewMs;
  }
};
