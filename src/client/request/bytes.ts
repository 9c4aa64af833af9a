/**
 * A readable size, such as "401 kB", "20.1 MB", "5.00 GB" or "79 GB"; rounded up below a gigabyte, so that a
 * size above a limit never looks equal to it.
 */
export function formatBytes(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(bytes < 1e10 ? 2 : 0)} GB`;
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1_000)} kB` : `${(Math.ceil(bytes / 100_000) / 10).toFixed(1)} MB`;
}
