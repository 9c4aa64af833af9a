import type { HttpResponse } from "../../io.ts";

type Headers = HttpResponse["headers"];

/**
 * Which version of a video a partial file holds, in the journal's own field names: what can be sent as If-Range, and the size of the whole in
 * bytes. `etag` is strong; `last_modified` is set without an ETag alone. Without either the download cannot be resumed.
 */
export type Version = { etag?: string | undefined; last_modified?: string | undefined; total?: number | undefined };

/** The value of If-Range. */
export function validatorOf({ etag, last_modified }: Version): string | undefined {
  return etag ?? last_modified;
}

/** The headers that request the rest of the same version; none when the whole file must be fetched. */
export function rangeHeaders(size: number, version: Version): Record<string, string> {
  const validator = validatorOf(version);
  return size > 0 && validator !== undefined ? { Range: `bytes=${size}-`, "If-Range": validator } : {};
}

/** The version of a whole body. */
export function readVersion(headers: Headers): Version {
  // Lengths and ranges count encoded bytes; the file gets decoded ones.
  if (headers.get("Content-Encoding") !== null) return {};
  const length = headers.get("Content-Length") ?? "";
  return { ...readValidator(headers), total: /^\d+$/.test(length) ? Number(length) : undefined };
}

/** A date serves only where there is no ETag at all (RFC 9110, section 13.1.5), and when it is strong. */
function readValidator(headers: Headers): Version {
  const etag = headers.get("ETag");
  if (etag !== null) return etag.startsWith('"') ? { etag } : {};
  const modified = headers.get("Last-Modified") ?? "";
  const ageMs = Date.parse(headers.get("Date") ?? "") - Date.parse(modified);
  // Strong is a date at least a second before the reply, and far enough for clocks that disagree (section 8.8.2.2).
  return ageMs >= 60_000 ? { last_modified: modified } : {};
}

/** Whether the rest of a video belongs to the known version. A header that is not there says nothing (RFC 9110, section 15.3.7). */
export function isSameVersion(known: Version, headers: Headers, total: number | undefined): boolean {
  const etag = headers.get("ETag");
  const modified = headers.get("Last-Modified");
  return (
    (known.total === undefined || known.total === total) &&
    (etag === null || etag === known.etag) &&
    (modified === null || known.last_modified === undefined || modified === known.last_modified)
  );
}
