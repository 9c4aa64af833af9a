const yearSeconds = 31_536_000;

/** Stores the chosen colours as a cookie: the service writes them into every page, so that none flashes in other colours. */
export function listenForTheme(): void {
  document.querySelector<HTMLSelectElement>("#theme")?.addEventListener("change", ({ target }) => {
    const { value } = target as HTMLSelectElement;
    // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API needs https.
    document.cookie = `vidgen_theme=${value}; Max-Age=${value === "" ? 0 : yearSeconds}; Path=/; SameSite=Strict`;
    document.documentElement.dataset.theme = value;
  });
}
