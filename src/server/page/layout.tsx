import { type Child, createContext, useContext } from "hono/jsx";
import { localAccount } from "../announcement.ts";
import type { Kinds } from "../store/reports.ts";
import { Menu } from "./elements.tsx";
import { ageText } from "./formatting.ts";
import { KeysHelp } from "./help.tsx";
import type { Terminal } from "./visitor.ts";

/** The paths of the script, the style sheet and the icon. */
export const AssetPathsContext = createContext({ script: "", style: "", icon: "" });

/** Who is signed in, and what that visitor can use. */
export const VisitorContext = createContext<{
  isOwner: boolean;
  account: string | undefined;
  /** Whether the visitor has batches, callbacks and credits. */
  kinds: Kinds | undefined;
  terminal: Terminal | undefined;
  /** The version of the data that the page shows. */
  version: string | undefined;
  theme: string | undefined;
}>({ isOwner: true, account: undefined, kinds: undefined, terminal: undefined, version: undefined, theme: undefined });

export type LayoutProps = {
  title: string;
  /** The path of the page's entry in the navigation. */
  current?: string | undefined;
  /** Whether the script keeps the page up to date. */
  isLive?: boolean;
  children?: Child;
};

/**
 * A whole document. The script updates its `<main>` after a change of a kind in `data-list`, or of the generation in `data-generation`. An entry of a
 * list needs an `id`, so that the script can match it. An element with `data-own` belongs to the user, who types or selects there: updates skip it.
 */
export function Layout({ title, current, isLive = true, children }: LayoutProps) {
  const { script, style, icon } = useContext(AssetPathsContext);
  const { isOwner, account, version, theme } = useContext(VisitorContext);
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
      <body data-account={account} data-version={version}>
        <a class="skip" href="#main">
          Skip to content
        </a>
        <header class="top">
          <a class="brand" href="/">
            <img src={icon} alt="" width="22" height="22" />
            vidgen
          </a>
          {current === undefined ? null : <Navigation current={current} />}
          <span id="connection" class="connection" role="status"></span>
          {account === undefined ? null : <AccountMenu name={isOwner ? "Owner" : account} />}
          <KeysHelp />
          <p id="notice" class="notice" role="alert" hidden></p>
        </header>
        <main id="main" tabindex={-1}>
          {children}
        </main>
      </body>
    </html>
  );
}

/** The links to the pages, and the primary action. */
function Navigation({ current }: { current: string }) {
  const { isOwner, kinds } = useContext(VisitorContext);
  const managed = [
    { path: "/batches", name: "Batches", isShown: kinds?.batches },
    { path: "/callbacks", name: "Callbacks", isShown: kinds?.callbacks },
    { path: "/credits", name: "Credits", isShown: kinds?.credits },
    { path: "/engine-status", name: "Engines", isShown: isOwner },
  ].filter(({ isShown }) => isShown);
  return (
    <nav aria-label="Pages">
      <PageLink path="/" name="Generations" current={current} />
      {managed.length === 0 ? null : (
        <Menu id="manage" name="Manage">
          {managed.map((page) => (
            <PageLink {...page} current={current} />
          ))}
        </Menu>
      )}
      <a class="button main" href="/new" aria-current={current === "/new" ? "page" : undefined}>
        New
      </a>
    </nav>
  );
}

function PageLink({ path, name, current }: { path: string; name: string; current: string }) {
  return (
    <a href={path} aria-current={path === current ? "page" : undefined}>
      {name}
    </a>
  );
}

function AccountMenu({ name }: { name: string }) {
  const { terminal, theme } = useContext(VisitorContext);
  return (
    <Menu id="account" name={name}>
      {terminal?.login === undefined ? null : (
        <p class="hint">
          For a terminal, with your API key: <code>{terminal.login}</code>
        </p>
      )}
      <label class="with-script">
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
      <form id="sign-out" action="/sign-out" method="post">
        <button type="submit">Sign out</button>
        <button type="submit" formaction="/sign-out?everywhere">
          Sign out everywhere
        </button>
      </form>
    </Menu>
  );
}

/** A time relative to now, such as "4 min ago". The script keeps it up to date. */
export function RelativeTime({ at, now }: { at: string; now: Date }) {
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

const keyErrors = {
  key: "This service does not know that key, or the key was revoked.",
  account: "This account is disabled. The owner of this service can enable it.",
};

/** The page for a visitor without a session. `invalid` is why a sign-in was refused; `to` is the address to show after signing in. */
export function SignInPage({ invalid, to }: { invalid: "link" | "key" | "account" | undefined; to: string }) {
  const error = invalid === undefined || invalid === "link" ? undefined : keyErrors[invalid];
  return (
    <Message title={invalid === "link" ? "This link has expired or was already used" : "Sign in"} isSignedIn={false}>
      <form class="sign-in" action="/" method="post">
        <label for="key">API key</label>
        <input
          id="key"
          name="key"
          type="password"
          autocomplete="current-password"
          required
          autofocus
          aria-invalid={error === undefined ? undefined : "true"}
          aria-describedby={error === undefined ? undefined : "key-error"}
        />
        <input type="hidden" name="to" value={to} />
        <button type="submit" class="main">
          Sign in
        </button>
        {error === undefined ? null : (
          <p id="key-error" class="fault" role="alert">
            {error}
          </p>
        )}
      </form>
      <h2>The owner's link</h2>
      <p>
        The owner of this service gets a link from <code>vidgen serve</code>, and a new one from{" "}
        <code>vidgen serve --link</code> on the machine of the service. Other users get their link from the owner:{" "}
        <code>vidgen accounts create</code> prints it. A link works once, for 10 minutes. Once you have signed in with
        it in this browser, this page continues by itself.
      </p>
    </Message>
  );
}

/** The page that a valid link opens. Its button signs in. */
export function LinkPage({ token, account }: { token: string; account: string }) {
  const whose = account === localAccount ? "the owner of this service" : `the account ${account}`;
  return (
    <Layout title="Sign in" isLive={false}>
      <section class="message">
        <h1>Sign in</h1>
        <p>This link signs you in as {whose}, once. The session ends after 7 days.</p>
        <form class="sign-in" action="/" method="post">
          <input type="hidden" name="token" value={token} />
          <button type="submit" class="main" autofocus>
            Sign in
          </button>
        </form>
      </section>
    </Layout>
  );
}

/**
 * The reply to a successful sign-in. It is not a redirect, because the link may have been opened by another site, such as a web terminal: a browser
 * sends the new SameSite cookie only with a request that comes from this site.
 */
export function SignedInPage({ to }: { to: string }) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="refresh" content={`0; url=${to}`} />
        <title>vidgen</title>
        <link rel="icon" href={useContext(AssetPathsContext).icon} />
      </head>
      <body>
        <a href={to}>Go to the page</a>
      </body>
    </html>
  );
}
