pragma circom 2.1.6;

include "membership.circom";

// "This issuer has checked who I am and given me a credential that ends at expires_at; where aml_required is 1, it has
// also checked me against its anti-money-laundering lists." Leaf of the issuer's tree: Poseidon(commitment, aml,
// expires_at). The same circuit serves both statuses: the scheme fixes aml_required, and a credential with the check
// also proves the weaker statement without showing that there was one.
template CheckedIdentity(depth) {
    signal input secret;
    // 1: the issuer made the check. Of the credential, not of the proof.
    signal input aml;
    signal input siblings[depth];
    signal input index[depth];

    signal output nullifier;
    signal input root;
    signal input scope;
    signal input subject;
    signal input aml_required;
    // Seconds since the epoch. Part of the leaf, so the prover cannot choose it.
    signal input expires_at;

    aml * (aml - 1) === 0;
    aml_required * (1 - aml) === 0;

    component holder = Holder();
    holder.secret <== secret;
    holder.scope <== scope;
    nullifier <== holder.nullifier;

    component leaf = Poseidon(3);
    leaf.inputs[0] <== holder.commitment;
    leaf.inputs[1] <== aml;
    leaf.inputs[2] <== expires_at;

    component tree = MerkleRoot(depth);
    tree.leaf <== leaf.out;
    for (var i = 0; i < depth; i++) {
        tree.siblings[i] <== siblings[i];
        tree.index[i] <== index[i];
    }
    tree.root === root;

    component bind = Bind();
    bind.subject <== subject;
}

component main {public [root, scope, subject, aml_required, expires_at]} = CheckedIdentity(4);
