/**
 * Rules for fields that are not part of the interface, but mean the same at all servers of real models. In a
 * message, `text` follows the name of the field. Servers accept numbers as text, too.
 */
const rules: Readonly<Record<string, { isValid: (number: number) => boolean; text: string }>> = {
  fps: { isValid: (number) => number > 0, text: "must be a number of frames per second above 0" },
  num_inference_steps: {
    isValid: (number) => Number.isSafeInteger(number) && number > 0,
    text: "must be a whole number above 0",
  },
  guidance_scale: { isValid: Number.isFinite, text: "must be a number" },
};

export type CheckedExtra = "fps" | "num_inference_steps" | "guidance_scale";

export const checkedExtras = Object.keys(rules) as readonly CheckedExtra[];

/**
 * Why no server accepts the value of such a field, as `text` of its rule; `undefined` if a server may accept
 * it, or nothing is sent.
 */
export function findExtraFault(name: string, value: unknown): string | undefined {
  const rule = rules[name];
  if (!rule || value === undefined) return undefined;
  // `Number` would convert a blank text to 0.
  const isNumeric = typeof value === "number" || (typeof value === "string" && /^\s*[+-]?[\d.]/.test(value));
  return isNumeric && rule.isValid(Number(value)) ? undefined : rule.text;
}
