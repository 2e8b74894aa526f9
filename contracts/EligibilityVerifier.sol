// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// @notice A granted access decision of Credence, as EIP-712 typed data.
/// @dev Field for field the message of the answer's `voucher`. Hashes of text are keccak256 of its UTF-8 bytes.
struct Voucher {
    /// Id of the decision: the UUID `jti` of the eligibility token.
    bytes16 jti;
    /// Who alone may redeem it.
    address wallet;
    /// Hash of the TRIS id that was checked.
    bytes32 subject;
    /// Hash of the policy's id, such as keccak256("AP_LOAN_V1").
    bytes32 policy;
    /// Content hash of the policy (SHA-256): its rules as well as its id.
    bytes32 policyHash;
    /// Hash of the audience of the decision; zero: none was named.
    bytes32 audience;
    /// Seconds since the epoch; from then on it counts no more.
    uint64 expiresAt;
}

/// @title Verifies vouchers of Credence, and lets each be redeemed once
/// @notice Says that a trusted issuer granted access to a wallet. Which policies suffice, only the contract that gates
/// an action knows: it inherits from this one, compares `voucher.policyHash`, and calls `redeem`.
/// @dev All issuers are trusted alike: each can grant anything, and invalidate what another has granted.
contract EligibilityVerifier {
    enum Use {
        None,
        Redeemed,
        Invalidated
    }

    bytes32 private constant DOMAIN_TYPE =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant NAME = keccak256("Credence");
    bytes32 private constant VERSION = keccak256("1");
    bytes32 private constant VOUCHER_TYPE = keccak256(
        "Voucher(bytes16 jti,address wallet,bytes32 subject,bytes32 policy,bytes32 policyHash,bytes32 audience,uint64 expiresAt)"
    );
    /// @dev Of (r, s) and (r, n - s), which are valid both, the lower s is accepted (EIP-2).
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;
    /// @dev What `isValidSignature(bytes32,bytes)` answers for a valid one, and its selector (EIP-1271).
    bytes4 private constant EIP_1271 = 0x1626ba7e;

    /// @notice Who registers issuers.
    address public owner;
    /// @notice To whom the ownership was offered.
    address public pendingOwner;
    /// @notice Until when vouchers of an issuer count, in seconds since the epoch; zero: not an issuer.
    mapping(address issuer => uint64) public issuerUntil;
    /// @notice What became of a voucher.
    mapping(bytes16 jti => Use) public useOf;

    event Redeemed(
        bytes16 indexed jti,
        address indexed wallet,
        bytes32 indexed policy,
        bytes32 policyHash,
        bytes32 subject,
        bytes32 audience,
        address issuer
    );
    event Invalidated(bytes16 indexed jti, address indexed by);
    event IssuerSet(address indexed issuer, uint64 until);
    event OwnershipOffered(address indexed owner, address indexed to);
    event OwnershipTransferred(address indexed from, address indexed to);

    error VoucherExpired(uint64 expiresAt);
    error VoucherRedeemed(bytes16 jti);
    error VoucherInvalidated(bytes16 jti);
    /// Neither 65 bytes of a key with a low s, nor a contract's address and what that contract judges.
    error SignatureMalformed();
    /// The contract that was named does not accept the signature.
    error SignatureRefused(address issuer);
    /// Whoever signed is no issuer, or no longer. Also what a voucher comes to in which anything was changed.
    error IssuerNotTrusted(address signer);
    error NotTheWallet(address wallet, address sender);
    error NotAllowed(address sender);
    error ZeroAddress();

    /// @param firstOwner who registers issuers; a multisignature wallet is a good one
    /// @param firstIssuer an address of the service's `GET /v1/eligibility/issuers`
    constructor(address firstOwner, address firstIssuer) {
        if (firstOwner == address(0)) revert ZeroAddress();
        owner = firstOwner;
        emit OwnershipTransferred(address(0), firstOwner);
        _setIssuer(firstIssuer, type(uint64).max);
    }

    modifier onlyOwner() {
        if (msg.sender != owner) revert NotAllowed(msg.sender);
        _;
    }

    /// @notice Does a voucher count now? Reverts with the reason if not. Uses nothing up.
    /// @param signature r, s and v of an issuer's key, 65 bytes; or, for an issuer that is a contract, its address
    /// (20 bytes) followed by the signature that its `isValidSignature` judges, 65 bytes or more
    /// @return issuer who granted
    function check(Voucher calldata voucher, bytes calldata signature) public view returns (address issuer) {
        if (block.timestamp >= voucher.expiresAt) revert VoucherExpired(voucher.expiresAt);
        _requireUnused(voucher.jti);
        return _issuerOf(digest(voucher), signature);
    }

    /// @notice Uses a voucher up, for the wallet it names.
    /// @dev The state is written after the only call to another contract, which is static.
    /// @return issuer who granted
    function redeem(Voucher calldata voucher, bytes calldata signature) public returns (address issuer) {
        if (msg.sender != voucher.wallet) revert NotTheWallet(voucher.wallet, msg.sender);
        issuer = check(voucher, signature);
        useOf[voucher.jti] = Use.Redeemed;
        emit Redeemed(
            voucher.jti,
            voucher.wallet,
            voucher.policy,
            voucher.policyHash,
            voucher.subject,
            voucher.audience,
            issuer
        );
    }

    /// @notice Ends a voucher before it expires, and before it was ever seen here. By the owner or an issuer.
    function invalidate(bytes16 jti) external {
        if (msg.sender != owner && !_isIssuer(msg.sender)) revert NotAllowed(msg.sender);
        _requireUnused(jti);
        useOf[jti] = Use.Invalidated;
        emit Invalidated(jti, msg.sender);
    }

    /// @notice Trusts an issuer until a time: the largest uint64 for ever, zero not at all, anything else lets the
    /// vouchers of a key that was rotated live to their end.
    function setIssuer(address issuer, uint64 until) external onlyOwner {
        _setIssuer(issuer, until);
    }

    /// @notice Offers the ownership, which whoever is to have it accepts; zero takes the offer back.
    function offerOwnership(address to) external onlyOwner {
        pendingOwner = to;
        emit OwnershipOffered(owner, to);
    }

    function acceptOwnership() external {
        if (msg.sender != pendingOwner) revert NotAllowed(msg.sender);
        emit OwnershipTransferred(owner, msg.sender);
        owner = msg.sender;
        pendingOwner = address(0);
    }

    /// @notice What is signed (EIP-712).
    function digest(Voucher calldata voucher) public view returns (bytes32) {
        // The fields have a fixed size, so their encoding is that of the struct.
        return keccak256(abi.encodePacked(hex"1901", domainSeparator(), keccak256(abi.encode(VOUCHER_TYPE, voucher))));
    }

    /// @dev Made anew each time: a chain that splits changes its id.
    function domainSeparator() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN_TYPE, NAME, VERSION, block.chainid, address(this)));
    }

    function _issuerOf(bytes32 hash, bytes calldata signature) private view returns (address issuer) {
        if (signature.length == 65) {
            bytes32 s = bytes32(signature[32:64]);
            if (uint256(s) > HALF_ORDER) revert SignatureMalformed();
            issuer = ecrecover(hash, uint8(signature[64]), bytes32(signature[:32]), s);
            if (issuer == address(0)) revert SignatureMalformed();
            if (!_isIssuer(issuer)) revert IssuerNotTrusted(issuer);
        } else {
            if (signature.length < 20 + 65) revert SignatureMalformed();
            issuer = address(bytes20(signature[:20]));
            // Before the call: nobody but the owner chooses what is called.
            if (!_isIssuer(issuer)) revert IssuerNotTrusted(issuer);
            (bool answered, bytes memory answer) =
                issuer.staticcall(abi.encodeWithSelector(EIP_1271, hash, signature[20:]));
            if (!answered || answer.length < 32 || bytes32(answer) != bytes32(EIP_1271)) revert SignatureRefused(issuer);
        }
    }

    function _isIssuer(address account) private view returns (bool) {
        return block.timestamp < issuerUntil[account];
    }

    function _requireUnused(bytes16 jti) private view {
        Use use = useOf[jti];
        if (use == Use.Redeemed) revert VoucherRedeemed(jti);
        if (use == Use.Invalidated) revert VoucherInvalidated(jti);
    }

    function _setIssuer(address issuer, uint64 until) private {
        if (issuer == address(0)) revert ZeroAddress();
        issuerUntil[issuer] = until;
        emit IssuerSet(issuer, until);
    }
}
