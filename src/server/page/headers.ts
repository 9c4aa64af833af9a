/** No other site can frame the page, run code in it, or learn its URL. The page loads nothing from elsewhere. */
export const headers = {
  "Content-Security-Policy": [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "media-src 'self'"],
    ...["connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"],
  ].join("; "),
  // With "no-referrer", a browser would send "Origin: null" with forms.
  "Referrer-Policy": "same-origin",
  "X-Frame-Options": "DENY",
  "X-Content-Type-Options": "nosniff",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-store",
};

/** The script of the page trusts only replies with this header: others may be from a proxy. */
export const pageHeader = "Vidgen-Page";

/** The bytes of a video or an image never change. */
export const mediaHeaders = { ...headers, "Cache-Control": "private, max-age=86400, immutable" };
