import type { PolicyResource, ResourceValidationPolicy, StackValidationPolicy } from '@pulumi/policy';
import { toPolicies } from '../../../policy/pack';
import { belongingTo, type Rule } from '../../../policy/rule';
import { UNKNOWN, Value } from '../../../policy/value';

/** Properties as Pulumi gives them in a preview: reading `key` throws. */
function unreadable(props: object, key: string): Record<string, unknown> {
  return Object.defineProperty({ ...props }, key, {
    enumerable: true,
    get: () => {
      throw new Error(`string value at .${key} can't be known during preview`);
    },
  });
}

describe('Value', () => {
  const value = Value.ofResource({ list: [{ a: 1 }, unreadable({ b: 2 }, 'a')], none: null, text: '{"Statement":{}}' });

  test('has the path of its property', () => {
    expect(
      value
        .at('list')
        .items()
        .map((item) => item.at('a').path),
    ).toEqual(['list[0].a', 'list[1].a']);
    expect(value.at('none.deeper').path).toBe('none.deeper');
    expect(value.at('text').document().at('Statement').path).toBe('text.Statement');
  });

  test('is unknown for an unreadable property, but not for the properties beside it', () => {
    const [, second] = value.at('list').items();
    expect(second?.at('a').raw).toBe(UNKNOWN);
    expect(second?.at('a.b').raw).toBe(UNKNOWN);
    expect(second?.at('b').raw).toBe(2);
  });

  test('may be any value, but is none, while it is unknown', () => {
    const unknown = new Value('x', UNKNOWN);
    expect([unknown.is(1), unknown.mayBe(1), unknown.mayInclude(1)]).toEqual([false, true, true]);
    expect([unknown.isThere(), unknown.isMissing(), unknown.items(), unknown.text()]).toEqual([
      false,
      false,
      [],
      undefined,
    ]);
    expect(new Value('x', { a: UNKNOWN, b: 1 }).shown()).toBe('{"a":"?","b":1}');
  });

  test('is no value if the property is missing', () => {
    const missing = value.at('none');
    expect([missing.is(1), missing.mayBe(1), missing.mayInclude(1), missing.isMissing()]).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });

  test('has no statements if the text is not JSON', () => {
    expect(new Value('policy', 'oops').document().at('Statement').items()).toEqual([]);
  });

  test('shortens long values in messages', () => {
    expect(new Value('x', 'a'.repeat(500)).shown()).toHaveLength(120);
  });
});

describe('toPolicies', () => {
  const rule: Rule = {
    name: 'a-rule',
    description: 'Something is demanded.',
    each: {
      types: ['a:b:C'],
      check: (resource, report) => {
        if (!resource.protect && resource.production === true)
          report({ resource, at: resource.props.at('size'), fix: 'set it' });
      },
    },
    stack: (resources, report) => {
      const [owner] = resources;
      if (owner === undefined) return;
      for (const resource of belongingTo(owner, 'a:b:D', 'of', resources, [])) {
        report({ resource, at: resource.props, problem: 'it is there', fix: 'take it away' });
      }
    },
  };
  const [each, stack] = toPolicies([rule], () => true) as [ResourceValidationPolicy, StackValidationPolicy];
  const urn = (type: string, name: string): string => `urn:pulumi:prod::serving::${type}::${name}`;

  test('makes mandatory policies with the name of the rule', () => {
    for (const policy of [each, stack]) {
      expect(policy).toMatchObject({
        name: 'a-rule',
        description: 'Something is demanded.',
        enforcementLevel: 'mandatory',
      });
    }
  });

  test.each([
    ['a:b:C', false, [['a:b:C "one": size is not known yet; set it.', urn('a:b:C', 'one')]]],
    ['a:b:C', true, []],
    ['a:b:D', false, []],
  ])('checks resources of the types of the rule: %s, protected: %s', async (type, protect, expected) => {
    const reported: unknown[][] = [];
    const { validateResource } = each;
    if (typeof validateResource !== 'function') throw new Error('one function is expected');
    const args = { type, name: 'one', urn: urn(type, 'one'), props: unreadable({}, 'size'), opts: { protect } };
    await validateResource(args as unknown as Parameters<typeof validateResource>[0], (...report) => {
      reported.push(report);
    });
    expect(reported).toEqual(expected);
  });

  test('gives a stack rule the resources and the references between them', async () => {
    const one = { type: 'a:b:C', name: 'one', urn: urn('a:b:C', 'one'), props: {}, opts: {}, dependencies: [] };
    const others = [{ of: [one] }, { other: [one] }].map((propertyDependencies, index) => ({
      ...one,
      type: 'a:b:D',
      name: `two-${index}`,
      urn: urn('a:b:D', `two-${index}`),
      propertyDependencies,
    }));
    const resources = [{ ...one, propertyDependencies: {} }, ...others] as unknown as PolicyResource[];
    const reported: unknown[][] = [];
    await stack.validateStack(
      { resources } as unknown as Parameters<typeof stack.validateStack>[0],
      (...report) => void reported.push(report),
    );
    expect(reported).toEqual([['a:b:D "two-0": it is there; take it away.', urn('a:b:D', 'two-0')]]);
  });

  test.each([
    ['kubernetes:apps/v1:Deployment', UNKNOWN],
    ['aws:s3/bucket:Bucket', undefined],
  ])('knows nothing of %s without properties: %p', async (type, expected) => {
    const seen: unknown[] = [];
    const [policy] = toPolicies(
      [{ ...rule, stack: ([first]) => void seen.push(first?.props.at('spec').raw) }],
      () => true,
    ).filter((one): one is StackValidationPolicy => 'validateStack' in one);
    const resources = [{ type, name: 'one', urn: urn(type, 'one'), props: {}, opts: {}, dependencies: [] }];
    await policy?.validateStack({ resources } as unknown as Parameters<typeof stack.validateStack>[0], () => undefined);
    expect(seen).toEqual([expected]);
  });
});
