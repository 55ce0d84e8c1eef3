import type * as pulumi from '@pulumi/pulumi';

/** Aliases as this program sets them: a former name, or a former type. */
type OwnAlias = { name?: string; type?: string };

/**
 * Lets Pulumi recognise the resources of stacks that were created when the name of the stack was part of each name in
 * the program. "pulumi stack rename" would have replaced everything then.
 * @param prefix what the names began with: "triton-STACK-"
 */
export const formerNames =
  (prefix: string): pulumi.ResourceTransformation =>
  ({ name, props, opts }) => {
    const own = (opts.aliases ?? []) as OwnAlias[];
    const former = [{}, ...own].map((alias: OwnAlias) => ({ ...alias, name: `${prefix}${alias.name ?? name}` }));
    return { props, opts: { ...opts, aliases: [...own, ...former] } };
  };
