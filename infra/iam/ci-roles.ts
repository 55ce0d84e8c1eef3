/** The roles of CI that infra/bootstrap creates for a stack. */
export const CI_ROLES = ['deploy', 'drift', 'preview'] as const;

export type CiRole = (typeof CI_ROLES)[number];

/** Name of a role of CI. Not triton-STACK-*, because the role deploy may change roles with such names. */
export const ciRoleName = (stack: string, role: CiRole): string => `ci-triton-${stack}-${role}`;
