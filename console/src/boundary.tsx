import { Alert, Button, Code, Stack, Title } from '@mantine/core';
import { Component, type ReactNode } from 'react';

/** Shows why a view cannot be shown, instead of nothing. A change of `at` tries again. */
export class Boundary extends Component<{ at: string; children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override componentDidUpdate(before: { at: string }): void {
    if (before.at !== this.props.at && this.state.error) this.setState({ error: null });
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <Alert color="red">
        <Stack gap="sm" align="flex-start">
          <Title order={1}>This view cannot be shown</Title>
          <span>
            The page has failed: <Code>{error.message}</Code>. What is in the service has not changed.
          </span>
          <Button onClick={() => this.setState({ error: null })}>Try again</Button>
        </Stack>
      </Alert>
    );
  }
}
