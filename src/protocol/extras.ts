/**
 * Fields beyond the interface whose values have one meaning at every server of real models: what is wrong with a value, after the field's name.
 * Servers take numbers as texts, too.
 */
const rules: Readonly<Record<string, { is: (number: number) => boolean; text: string }>> = {
  fps: { is: (number) => number > 0, text: "must be a number of frames per second above 0" },
  num_inference_steps: {
    is: (number) => Number.isSafeInteger(number) && number > 0,
    text: "must be a whole number above 0",
  },
  guidance_scale: { is: Number.isFinite, text: "must be a number" },
};

export type CheckedExtra = "fps" | "num_inference_steps" | "guidance_scale";

export const checkedExtras = Object.keys(rules) as readonly CheckedExtra[];

/** What no server takes as the value of a further field; `undefined` where a server may take it, and where nothing is sent. */
export function findExtraFault(name: string, value: unknown): string | undefined {
  const rule = rules[name];
  if (!rule || value === undefined) return undefined;
  const isNumeric = typeof value === "number" || (typeof value === "string" && /^\s*[+-]?[\d.]/.test(value));
  return isNumeric && rule.is(Number(value)) ? undefined : rule.text;
}
