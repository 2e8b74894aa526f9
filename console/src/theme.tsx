import { useEffect, useState } from 'react';

const STORED = 'credence-theme';
const THEMES = ['system', 'light', 'dark'];

export function ThemePicker() {
  const [theme, setTheme] = useState(() => localStorage.getItem(STORED) ?? 'system');
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme;
    localStorage.setItem(STORED, theme);
    // Drawings take their colours from the theme.
    window.dispatchEvent(new Event('themechange'));
  }, [theme]);
  return (
    <label className="theme">
      Theme{' '}
      <select value={theme} onChange={({ target }) => setTheme(target.value)}>
        {THEMES.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}
