import { rollup } from "rollup";
import { dts } from "rollup-plugin-dts";

/** Writes the types that an entry exports, and those that these need, as one file, under each of the names. */
export async function bundleTypes(input, files) {
  const made = await rollup({ input, external: /^(node:|undici)/, plugins: [dts({ tsconfig: "tsconfig.json" })] });
  for (const file of files) await made.write({ file });
}
