import { DataList, Group, Paper, Stack, Text, Title } from '@mantine/core';
import { type ReactNode, useId } from 'react';

/** What belongs together, on a card of its own with a title. */
export function Panel(props: {
  title: ReactNode;
  order?: 2 | 3;
  className?: string;
  /** Whether it is a landmark of the page. A part that has the name of its table is not. */
  isLandmark?: boolean;
  children: ReactNode;
}) {
  const { title, order = 2, className, isLandmark = true, children } = props;
  const id = useId();
  return (
    <Paper
      withBorder
      p="md"
      {...(isLandmark && { component: 'section', 'aria-labelledby': id })}
      {...(className && { className })}
    >
      <Stack gap="sm">
        <Title order={order} id={id}>
          {title}
        </Title>
        {children}
      </Stack>
    </Paper>
  );
}

/** A remark: smaller and paler than what it is about. */
export const Note = ({ children }: { children: ReactNode }) => (
  <Text size="sm" c="dimmed">
    {children}
  </Text>
);

/** Large numbers side by side, each with its name above and a remark below. */
export function Figures({ figures }: { figures: readonly (readonly [ReactNode, ReactNode, ReactNode])[] }) {
  return (
    <Group component="dl" className="figures" gap="xl" align="flex-start" m={0}>
      {figures.map(([name, value, remark], i) => (
        // Their places do not change.
        // oxlint-disable-next-line
        <div key={i} className="figure">
          <Text component="dt" size="sm" c="dimmed">
            {name}
          </Text>
          <Text component="dd" m={0}>
            <Text span fz="1.375rem" fw={600} className="numbers">
              {value}
            </Text>
            <Note>{remark}</Note>
          </Text>
        </div>
      ))}
    </Group>
  );
}

/** Names and values, one below the other. */
export function Details({ rows }: { rows: readonly (readonly [name: string, value: ReactNode] | false)[] }) {
  return (
    <DataList size="sm" gap="xs" labelWidth={120}>
      {rows
        .filter((row) => row !== false)
        .map(([name, value]) => (
          <DataList.Item key={name}>
            <DataList.ItemLabel>{name}</DataList.ItemLabel>
            <DataList.ItemValue>{value}</DataList.ItemValue>
          </DataList.Item>
        ))}
    </DataList>
  );
}
