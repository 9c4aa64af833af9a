/** Signs in by a link to the page, as the button does that the link opens. */
export function useLink(link: string, headers: Record<string, string> = {}): Promise<Response> {
  const { origin, searchParams } = new URL(link);
  const body = new URLSearchParams(searchParams);
  return fetch(origin, { method: "POST", headers: { Origin: origin, ...headers }, body, redirect: "manual" });
}

/** The cookie that a browser would keep. */
export function cookieOf({ headers }: Response): string {
  return /^[^;]*/.exec(headers.get("Set-Cookie") ?? "")?.[0] ?? "";
}
