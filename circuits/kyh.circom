pragma circom 2.1.6;

include "membership.circom";

// "I am one of the humans this registry has enrolled, my enrolment ends at expires_at, and within this scope I am
// always the same one." Leaf of the registry's tree: Poseidon(commitment, expires_at).
template UniqueHuman(depth) {
    signal input secret;
    signal input siblings[depth];
    signal input index[depth];

    signal output nullifier;
    signal input root;
    signal input scope;
    signal input subject;
    // Seconds since the epoch. Part of the leaf, so the prover cannot choose it.
    signal input expires_at;

    component holder = Holder();
    holder.secret <== secret;
    holder.scope <== scope;
    nullifier <== holder.nullifier;

    component leaf = Poseidon(2);
    leaf.inputs[0] <== holder.commitment;
    leaf.inputs[1] <== expires_at;

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

component main {public [root, scope, subject, expires_at]} = UniqueHuman(4);
