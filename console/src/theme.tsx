import { createTheme, localStorageColorSchemeManager, NativeSelect, useMantineColorScheme } from '@mantine/core';

/**
 * How the console looks. Its variables are written into the style sheet when the console is built: a page with this
 * content security policy has no style element. So nothing may be used that makes one: no `SimpleGrid`, `Grid`, `Flex`
 * or `AppShell`, no responsive style props, and no lock of the scroll position.
 */
export const theme = createTheme({
  primaryColor: 'indigo',
  primaryShade: { light: 7, dark: 7 },
  defaultRadius: 'md',
  fontFamily: 'system-ui, sans-serif',
  fontFamilyMonospace: 'ui-monospace, monospace',
  fontSizes: { xs: '0.8125rem', sm: '0.875rem', md: '0.9375rem' },
  cursorType: 'pointer',
  respectReducedMotion: true,
  headings: {
    fontWeight: '600',
    sizes: {
      h1: { fontSize: '1.5rem', lineHeight: '1.3' },
      h2: { fontSize: '1rem', lineHeight: '1.5' },
      h3: { fontSize: '0.9375rem', lineHeight: '1.5' },
      h4: { fontSize: '0.9375rem', lineHeight: '1.5' },
    },
  },
  colors: {
    dark: [
      '#e6e9ee',
      '#b8c0cb',
      '#9aa4b2',
      '#6b7686',
      '#3a4350',
      '#2b323c',
      '#1e242d',
      '#171b22',
      '#0e1116',
      '#0a0c10',
    ],
  },
  components: {
    Badge: {
      defaultProps: {
        variant: 'light',
        color: 'gray',
        radius: 'sm',
        tt: 'none',
        fw: 500,
        c: 'var(--mantine-color-text)',
      },
    },
    Button: { defaultProps: { variant: 'default', size: 'xs' } },
    Table: { defaultProps: { verticalSpacing: 6, horizontalSpacing: 'sm', tabularNums: true } },
  },
});

/** Where the choice of a reader is kept. */
export const schemes = localStorageColorSchemeManager({ key: 'credence-theme' });

export function ThemePicker() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <NativeSelect
      aria-label="Theme"
      size="xs"
      value={colorScheme}
      onChange={({ target }) => setColorScheme(target.value as typeof colorScheme)}
      data={[{ value: 'auto', label: 'system' }, 'light', 'dark']}
    />
  );
}

/** Calls `recolour` when the theme changes: drawings on a canvas take their colours from it. @returns ends that */
export function onThemeChange(recolour: () => void): () => void {
  const observer = new MutationObserver(recolour);
  observer.observe(document.documentElement, { attributeFilter: ['data-mantine-color-scheme'] });
  return () => observer.disconnect();
}
