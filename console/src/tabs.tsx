type TabTitles = readonly (readonly [name: string, title: string])[];

/** Links to the parts of a page, of which one is shown. */
export function Tabs({ tabs, shown, hrefOf }: { tabs: TabTitles; shown: string; hrefOf: (name: string) => string }) {
  return (
    <nav className="tabs" aria-label="Parts of this page">
      {tabs.map(([name, title]) => (
        <a key={name} href={hrefOf(name)} aria-current={name === shown ? 'page' : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}
