// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {EligibilityVerifier, Voucher} from "contracts/EligibilityVerifier.sol";

/// An action that a voucher of one policy opens, once.
contract Gate is EligibilityVerifier {
    bytes32 public immutable POLICY_HASH;
    mapping(address wallet => uint256) public entered;

    error OtherPolicy(bytes32 policyHash);

    constructor(address owner, address issuer, bytes32 policyHash) EligibilityVerifier(owner, issuer) {
        POLICY_HASH = policyHash;
    }

    function enter(Voucher calldata voucher, bytes calldata signature) external {
        if (voucher.policyHash != POLICY_HASH) revert OtherPolicy(voucher.policyHash);
        redeem(voucher, signature);
        entered[msg.sender]++;
    }
}
