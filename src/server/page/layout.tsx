import { type Child, createContext, useContext } from "hono/jsx";
import { localAccount } from "../announcement.ts";
import { ageText } from "./formatting.ts";
import { Keys } from "./help.tsx";
import type { Terminal } from "./visitor.ts";

/** The paths of the page's files, for every document. */
export const AssetPaths = createContext({ script: "", style: "", icon: "" });

/** The visitor, for every document. */
export const Visitor = createContext<{
  isOwner: boolean;
  account: string | undefined;
  terminal: Terminal | undefined;
  theme: string | undefined;
}>({ isOwner: true, account: undefined, terminal: undefined, theme: undefined });

export type LayoutProps = {
  title: string;
  /** The path of the page's entry in the navigation. */
  current?: string | undefined;
  /** Whether the script keeps the page up to date. */
  isLive?: boolean;
  children?: Child;
};

const entries = [
  { path: "/new", name: "New" },
  { path: "/", name: "Generations" },
  { path: "/batches", name: "Batches" },
  { path: "/callbacks", name: "Callbacks" },
  { path: "/credits", name: "Credits" },
  { path: "/engine-status", name: "Engines", isOwners: true },
];

/**
 * A whole document. The script updates its `<main>` after a change of a kind in `data-list`, or of the generation in `data-generation`. An entry of a
 * list needs an `id`, so that the script can match it.
 */
export function Layout({ title, current, isLive = true, children }: LayoutProps) {
  const { script, style, icon } = useContext(AssetPaths);
  const { isOwner, account, theme } = useContext(Visitor);
  const shown = entries.filter(({ isOwners = false }) => isOwner || !isOwners);
  return (
    <html lang="en" data-theme={theme}>
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{`${title} · vidgen`}</title>
        <link rel="icon" href={icon} />
        <link rel="stylesheet" href={style} />
        {isLive ? <script type="module" src={script}></script> : null}
      </head>
      <body data-account={account}>
        <a class="skip" href="#main">
          Skip to content
        </a>
        <header class="top">
          <a class="brand" href="/">
            <img src={icon} alt="" width="22" height="22" />
            vidgen
          </a>
          {current === undefined ? null : (
            <nav aria-label="Pages">
              {shown.map(({ path, name }) => (
                <a href={path} aria-current={path === current ? "page" : undefined}>
                  {name}
                </a>
              ))}
            </nav>
          )}
          <span id="connection" class="connection" role="status"></span>
          {account === undefined ? null : <Account name={isOwner ? "Owner" : account} />}
          <Keys />
          <p id="notice" class="notice" role="alert" hidden></p>
        </header>
        <main id="main" tabindex={-1}>
          {children}
        </main>
        <footer class="with-script">
          <label>
            Colours{" "}
            <select id="theme">
              <option value="">System</option>
              <option value="light" selected={theme === "light"}>
                Light
              </option>
              <option value="dark" selected={theme === "dark"}>
                Dark
              </option>
            </select>
          </label>
        </footer>
      </body>
    </html>
  );
}

function Account({ name }: { name: string }) {
  const login = useContext(Visitor).terminal?.login;
  return (
    <details class="account">
      <summary>{name}</summary>
      <div>
        {login === undefined ? null : (
          <p class="hint">
            For a terminal, with your API key: <code>{login}</code>
          </p>
        )}
        <form id="sign-out" action="/sign-out" method="post">
          <button type="submit">Sign out</button>
        </form>
      </div>
    </details>
  );
}

/** The age of something. The script keeps it up to date. */
export function Time({ at, now }: { at: string; now: Date }) {
  return (
    <time datetime={at} title={at}>
      {ageText(at, now)}
    </time>
  );
}

type MessageProps = { title: string; isSignedIn?: boolean; children?: Child };

/** A message in place of a page. A visitor who is signed in also gets the navigation. */
export function Message({ title, isSignedIn = true, children }: MessageProps) {
  return (
    <Layout title={title} current={isSignedIn ? "" : undefined}>
      <section class="message" data-signed-out={isSignedIn ? undefined : ""}>
        <h1>{title}</h1>
        {children}
      </section>
    </Layout>
  );
}

/** The page for a visitor without a session. `invalid` is what was refused; `to` is the address to show after signing in. */
export function SignInPage({ invalid, to }: { invalid: "link" | "key" | "account" | undefined; to: string }) {
  return (
    <Message
      title={invalid === "link" ? "This link has expired, or was used" : "Sign in with a link or an API key"}
      isSignedIn={false}
    >
      <p>
        This page shows prompts and videos, so it opens only with a link or an API key. Whoever runs the service has a
        link from <code>vidgen serve</code> for the owner, and from <code>vidgen accounts create</code> for everybody
        else. A link works once, for 10 minutes. Once you have signed in with it in this browser, this page continues by
        itself.
      </p>
      <p>
        No link at hand? Sign in with your API key below. The owner gets a new link from{" "}
        <code>vidgen serve --link</code>, on the machine of the service.
      </p>
      <form class="sign-in" action="/" method="post">
        <label for="key">API key, to see the generations of its account:</label>
        <input id="key" name="key" type="password" autocomplete="current-password" required />
        <input type="hidden" name="to" value={to} />
        <button type="submit">Sign in</button>
        {invalid === "account" ? (
          <p role="alert">This account is disabled. The owner of this service can enable it.</p>
        ) : null}
        {invalid === "key" ? <p role="alert">This service does not know that key, or the key was revoked.</p> : null}
      </form>
    </Message>
  );
}

/** The page of a valid link. */
export function LinkPage({ token, account }: { token: string; account: string }) {
  const whose = account === localAccount ? "the owner of this service" : `the account ${account}`;
  return (
    <Layout title="Sign in" isLive={false}>
      <section class="message">
        <h1>Sign in</h1>
        <p>This link signs you in as {whose}, once. The session ends after 7 days.</p>
        <form class="sign-in" action="/" method="post">
          <input type="hidden" name="token" value={token} />
          <button type="submit" autofocus>
            Sign in
          </button>
        </form>
      </section>
    </Layout>
  );
}

/**
 * The reply to a successful sign-in. Not a redirect: a browser sends the new SameSite cookie only if the next request comes from this site, and the link may
 * have been opened by another site, such as a web terminal.
 */
export function SignedInPage({ to }: { to: string }) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="refresh" content={`0; url=${to}`} />
        <title>vidgen</title>
        <link rel="icon" href={useContext(AssetPaths).icon} />
      </head>
      <body>
        <a href={to}>Go to the page</a>
      </body>
    </html>
  );
}
