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
      <div role="alert" className="failure">
        <h1>This view cannot be shown</h1>
        <p>
          The page has failed: <code>{error.message}</code>. What is in the service has not changed.
        </p>
        <p className="actions">
          <button type="button" onClick={() => this.setState({ error: null })}>
            Try again
          </button>
        </p>
      </div>
    );
  }
}
