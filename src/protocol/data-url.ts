import { createHash } from "node:crypto";

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
