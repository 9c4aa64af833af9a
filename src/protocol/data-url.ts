import { createHash } from "node:crypto";
import type { WireGeneration } from "./schema.ts";
import { isDataUrl } from "./url.ts";

/** The bytes of a `data:` URL, in base64 or percent-encoded (RFC 2397). */
export function readDataUrl(address: string): Buffer {
  const comma = address.indexOf(",");
  const data = address.slice(comma + 1);
  const decoded = data.replace(/%([\da-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(decoded, /;base64\s*$/i.test(address.slice(0, comma)) ? "base64" : "latin1");
}

/** What is shown in place of a `data:` URL, such as "data:video/mp4 (2097152 bytes, sha256 9f86...)". It is no address. */
export function describeDataUrl(address: string): string {
  const [type = "data:"] = /^data:[\w/+.-]*/i.exec(address.slice(0, 100)) ?? [];
  const bytes = readDataUrl(address);
  return `${type} (${bytes.length} bytes, sha256 ${createHash("sha256").update(bytes).digest("hex")})`;
}

/**
 * Takes a video out of a generation that has it as a `data:` URL: `video_url` then only describes it, since
 * it may have 90 MB, and whoever shows or records it does not deliver it.
 */
export function splitVideoData(generation: WireGeneration): { generation: WireGeneration; videoData?: string } {
  const { video_url } = generation;
  if (typeof video_url !== "string" || !isWholeDataUrl(video_url)) return { generation };
  return { generation: { ...generation, video_url: describeDataUrl(video_url) }, videoData: video_url };
}

function isWholeDataUrl(text: string): boolean {
  return isDataUrl(text) && text.includes(",") && !/ \(\d+ bytes, sha256 /.test(text.slice(0, 200));
}
