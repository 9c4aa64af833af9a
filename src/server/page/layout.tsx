import type { Child } from "hono/jsx";
import { ageText } from "./formatting.ts";

export type LayoutProps = {
  title: string;
  /** The path of the page's entry in the navigation. */
  current?: string;
  children?: Child;
};

const entries = [
  { path: "/", name: "Generations" },
  { path: "/callbacks", name: "Callbacks" },
  { path: "/credits", name: "Credits" },
];

/** A whole document. Elements with `data-part` or `data-key` are what the browser's script replaces when they change. */
export function Layout({ title, current, children }: LayoutProps) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{`${title} · vidgen`}</title>
        <link rel="icon" href="/assets/icon.svg" />
        <link rel="stylesheet" href="/assets/page.css" />
        <script type="module" src="/assets/page.js"></script>
      </head>
      <body>
        <a class="skip" href="#main">
          Skip to content
        </a>
        <header class="top">
          <a class="brand" href="/">
            <img src="/assets/icon.svg" alt="" width="22" height="22" />
            vidgen
          </a>
          {current === undefined ? null : (
            <nav aria-label="Pages">
              {entries.map(({ path, name }) => (
                <a href={path} aria-current={path === current ? "page" : undefined}>
                  {name}
                </a>
              ))}
            </nav>
          )}
          <span id="connection" class="connection" role="status"></span>
        </header>
        <p id="notice" class="notice" role="alert" hidden></p>
        <main id="main" tabindex={-1}>
          {children}
        </main>
      </body>
    </html>
  );
}

/** How long ago something was; the browser keeps it up to date. */
export function Time({ at, now }: { at: string; now: Date }) {
  return (
    <time datetime={at} title={at}>
      {ageText(at, now)}
    </time>
  );
}

/** The page that takes the place of another one, with what to do. */
export function Message({ title, children }: { title: string; children?: Child }) {
  return (
    <Layout title={title}>
      <section class="message">
        <h1>{title}</h1>
        {children}
      </section>
    </Layout>
  );
}

/** For a visitor without a session. */
export function SignInPage() {
  return (
    <Message title="Open the link of vidgen serve">
      <p>
        This page shows prompts and videos, so it opens only by the link that <code>vidgen serve</code> prints when it
        starts. The link works until <code>serve</code> ends.
      </p>
      <p>
        Not at hand? Stop <code>serve</code> and start it again: nothing is lost. <code>vidgen serve --json</code>{" "}
        prints the link as <code>page_url</code>.
      </p>
    </Message>
  );
}

/**
 * Answers the link itself. Not a redirect: a browser sends the new SameSite cookie along only when the next request comes from this site, and the
 * link may have been opened by another one, such as a terminal in a web page.
 */
export function SignedInPage() {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="refresh" content="0; url=/" />
        <title>vidgen</title>
        <link rel="icon" href="/assets/icon.svg" />
      </head>
      <body>
        <a href="/">Go to the page</a>
      </body>
    </html>
  );
}
