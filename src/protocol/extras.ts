/**
 * Rules for fields beyond the interface that mean the same at all servers of real models. `text` follows the field's name.
 * Servers accept numbers as text, too.
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

/** Why no server accepts the value of a field beyond the interface; `undefined` if a server may accept it, or nothing is sent. */
export function findExtraFault(name: string, value: unknown): string | undefined {
  const rule = rules[name];
  if (!rule || value === undefined) return undefined;
  const isNumeric = typeof value === "number" || (typeof value === "string" && /^\s*[+-]?[\d.]/.test(value));
  return isNumeric && rule.is(Number(value)) ? undefined : rule.text;
}
