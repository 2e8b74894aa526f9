import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiError } from './api.ts';
import { App } from './app.tsx';
import { schemes, theme } from './theme.tsx';

const RETRIES = 4;

/** A refusal stays one, unless the service says when to ask again. */
function isTemporary(failures: number, error: Error): boolean {
  const { status } = error as ApiError;
  return failures < RETRIES && (status === 0 || status === 429 || status === 503);
}

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      refetchOnWindowFocus: false,
      retry: isTemporary,
      retryDelay: (failures, error) => (error as ApiError).retryAfter ?? Math.min(500 * 2 ** failures, 8_000),
      // A browser that is offline can still reach a service on its own machine.
      networkMode: 'always',
    },
  },
});

createRoot(document.querySelector('#root')!).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      colorSchemeManager={schemes}
      defaultColorScheme="auto"
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
