import { rollup } from "rollup";
import { dts } from "rollup-plugin-dts";

/** Writes the types that an entry exports, and those that these need, as one file. */
export async function bundleTypes(input, file) {
  const made = await rollup({ input, external: /^(node:|undici)/, plugins: [dts({ tsconfig: "tsconfig.json" })] });
  await made.write({ file });
}
